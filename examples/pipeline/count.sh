#!/usr/bin/env bash
# The second worker's command: count the file that the payload names, as `wc` does.
# Reads {"path" or "path_base64", "sha256"} and prints the same with "lines", "words" and "bytes".
set -euo pipefail

payload=$(cat)

# One run of jq for both, since starting it takes longer than counting: the payload on one line with its
# closing brace left open, then the path. A path ends in ".py", so the final newlines that $(…) cuts off
# can't be part of it.
parts=$(jq -r '(tojson | .[:-1]), .path // ""' <<<"$payload")
open_result=${parts%%$'\n'*}
path=${parts#*$'\n'}
if [[ $path == "$parts" ]]; then # nothing follows the first line: not UTF-8
    path=$(jq -r '.path_base64' <<<"$payload" | base64 -d)
fi

if counts=$(wc <"$path"); then
    read -r lines words bytes <<<"$counts"
    printf '%s,"lines":%s,"words":%s,"bytes":%s}\n' "$open_result" "$lines" "$words" "$bytes"
else
    # Trying again wouldn't bring the file back: the task ends, and its result says why.
    printf '%s,"error":"gone or unreadable when it was to be counted"}\n' "$open_result"
fi
