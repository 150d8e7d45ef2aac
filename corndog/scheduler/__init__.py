"""What happens because time passed: one small file for each loop, and the lease that lets one replica run them."""
