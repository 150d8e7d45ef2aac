"""What it says of itself: logs (metrics and traces join here)."""
