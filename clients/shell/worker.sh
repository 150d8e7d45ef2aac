#!/usr/bin/env bash
# A corndog worker in one file: bash, curl, jq, and nothing else that isn't on every Unix.
#
# It pulls tasks from a queue, runs a command for each, and tells the server how it went:
#
#     pull ──▶ payload on stdin ──▶ COMMAND ──▶ exit 0: complete, or move to --next-state
#      ▲                                   └──▶ else:   release, to be pulled again after --retry-delay
#      └────────────────────────────────────────┘
#
# Delivery is at least once: COMMAND may see a task again, so it should be safe to repeat.
# Keeps to what bash 3.2 knows.
set -uo pipefail
exec 3>&2

readonly MAX_BACKOFF_MS=30000 # longest pause between two tries while the server is away
readonly KILL_AFTER=5         # seconds between asking the command to end and making it

usage() {
    cat <<'TEXT'
Usage: worker.sh [OPTION]... [--] COMMAND [ARG]...

Pull tasks from a corndog server and run COMMAND for each of them, one at a time.
Run several workers to work in parallel.

COMMAND gets the payload on stdin, byte for byte, and in its environment TASK_ID, TASK_QUEUE,
TASK_STATE (the state it was pulled from), TASK_DELIVERY, TASK_KIND and TASK_CONTENT_TYPE.
If it exits with 0, its stdout becomes the task's result; otherwise the task is released.

Where from
  --server URL            the server                                (http://127.0.0.1:8080)
  --queue NAME            queue to pull from; may be given again    (default)
  --state STATE           state to pull from                        (submitted)
  --count N               most tasks of one pull; the clocks of all of them start with it  (1)
  --work-timeout SECONDS  how long each may be held; 0: forever     (the task's own, or the server's)
  --worker-id ID          name shown for the tasks held             (sh-HOST-PID)

Where to
  --output-type TYPE      media type of stdout; of application/json and …+json, it must be one
                          JSON value                                (application/octet-stream)
  --next-state STATE      don't complete: move the task to STATE, with stdout as its new payload
  --keep-payload          with --next-state: keep the payload, drop stdout
  --retry-delay SECONDS   pause before a released task can be pulled again   (10)

How long
  --once                  end after one pull, whether or not there was a task
  --until-empty           end when there is nothing left to pull
  --poll SECONDS          mean pause between two pulls of an empty queue       (1)
  --patience SECONDS      end (status 1) when the server has been away that long   (never)
  --grace SECONDS         on SIGTERM, SIGINT or SIGHUP, how long the running command may take to
                          finish before it is ended and its task released; a second signal
                          ends it at once                           (20)

  --verbose               log each task, not only trouble
  --help                  show this

Exit status: 0 ended as asked, 1 the server refuses or is away, 2 wrong usage.
TEXT
}

# To a copy of stderr, so that a signal's message isn't lost where stderr is silenced.
log() { printf 'worker.sh %s: %s\n' "$worker_id" "$*" >&3; }
log_verbose() { [[ $verbose == 0 ]] || log "$@"; }
die() {
    log "$@"
    exit 1
}
wrong_usage() {
    printf 'worker.sh: %s (see --help)\n' "$*" >&2
    exit 2
}

# ---------------------------------------------------------------- options

server=http://127.0.0.1:8080
queues=()
state=submitted
count=1
work_timeout=null
worker_id=sh-$(uname -n)-$$
output_type=application/octet-stream
next_state=
keep_payload=0
retry_delay=10
end_when=stopped
poll_ms=1000
patience=
grace=20
verbose=0

require_duration() { # option, value
    [[ $2 =~ ^(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?$ ]] || wrong_usage "$1 takes a number of seconds, not '$2'"
}

require_count() { # option, value
    [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || wrong_usage "$1 takes a whole number from 1, not '$2'"
}

parse_options() {
    while (($#)); do
        case $1 in
            --help) usage && exit 0 ;;
            --once | --until-empty) end_when=${1#--} && shift && continue ;;
            --keep-payload) keep_payload=1 && shift && continue ;;
            --verbose) verbose=1 && shift && continue ;;
            --) shift && break ;;
            --server | --queue | --state | --count | --work-timeout | --worker-id | --output-type | --next-state | \
                --retry-delay | --poll | --patience | --grace) (($# > 1)) || wrong_usage "$1 needs a value" ;;
            -*) wrong_usage "$1 isn't an option" ;;
            *) break ;;
        esac
        case $1 in
            --server) server=${2%/} ;;
            --queue) queues+=("$2") ;;
            --state) state=$2 ;;
            --count) require_count "$1" "$2" && count=$2 ;;
            --work-timeout) require_duration "$1" "$2" && work_timeout=$2 ;;
            --worker-id) worker_id=$2 ;;
            --output-type) output_type=$2 ;;
            --next-state) next_state=$2 ;;
            --retry-delay) require_duration "$1" "$2" && retry_delay=$2 ;;
            --poll) require_duration "$1" "$2" && poll_ms=$(to_ms "$2") ;;
            --patience) require_duration "$1" "$2" && patience=$2 ;;
            --grace) require_duration "$1" "$2" && grace=$2 ;;
        esac
        shift 2
    done
    (($#)) || wrong_usage "a COMMAND is missing"
    type -P -- "$1" >/dev/null || wrong_usage "there is no program '$1' to run"
    ((poll_ms >= 50)) || wrong_usage "--poll takes 0.05 or more"
    [[ $keep_payload == 0 || -n $next_state ]] || wrong_usage "--keep-payload needs --next-state"
    ((${#queues[@]})) || queues=(default)
    command=("$@")
}

# ---------------------------------------------------------------- stopping

stopping=0      # a signal asked the worker to end
stop_deadline=0 # … and until then ($SECONDS) it may finish what it has begun
napping=        # process of the pause in progress
running=        # process, and process group, of the command in progress
grace_timer=

request_stop() {
    if ((stopping)); then
        [[ -z $running ]] || kill -TERM -- "-$running" 2>/dev/null
    else
        stopping=1
        stop_deadline=$((SECONDS + ${grace%.*}))
    fi
    [[ -z $running ]] || start_grace_timer
    [[ -z $napping ]] || kill "$napping" 2>/dev/null
}

start_grace_timer() {
    [[ -z $grace_timer ]] || return
    grace_timer=starting # one is enough, even if another signal comes right now
    log "stopping; the running command has $grace s to finish"
    set -m # its own process group, so that ending the timer ends its sleep too
    (
        sleep "$grace"
        kill -TERM -- "-$running"
        sleep "$KILL_AFTER"
        kill -KILL -- "-$running"
    ) 2>/dev/null 3>&- &
    grace_timer=$!
    set +m
}

stop_grace_timer() {
    [[ -n $grace_timer ]] || return
    kill -TERM -- "-$grace_timer"
    wait "$grace_timer"
    grace_timer=
} 2>/dev/null

# ---------------------------------------------------------------- waiting

to_ms() { # seconds, as checked by require_duration
    local whole=${1%%.*} fraction=${1#"${1%%.*}"}
    fraction=${fraction#.}000
    echo $((whole * 1000 + 10#${fraction:0:3}))
}

# Pause for half to one and a half times the given milliseconds (many workers shouldn't call in
# step), or until a signal comes, or not at all if one has come.
nap() {
    local ms=$(($1 / 2 + $1 * RANDOM / 32768)) seconds
    printf -v seconds '%d.%03d' $((ms / 1000)) $((ms % 1000))
    sleep "$seconds" 3>&- &
    napping=$!
    ((stopping)) || wait "$napping" # a signal from here on ends the sleep itself
    kill "$napping"
    wait "$napping"
    napping=
} 2>/dev/null

failures=0     # requests in a row that got no answer
silent_since=0 # when the first of them was ($SECONDS)

back_off() {
    ((failures)) || silent_since=$SECONDS
    if [[ -n $patience ]] && ((SECONDS - silent_since >= ${patience%.*} && failures)); then
        die "giving up: the server has been away for $patience s ($(trouble))"
    fi
    local ms=$((500 << (failures < 6 ? failures : 6))) # 0.5 s, 1 s, 2 s …
    ((ms < MAX_BACKOFF_MS)) || ms=$MAX_BACKOFF_MS
    failures=$((failures + 1))
    log "no answer from $server ($(trouble)); trying again in about $(((ms + 999) / 1000)) s"
    # Short steps while stopping, so that the grace isn't slept away.
    if ((stopping)); then sleep 0.5; else nap "$ms"; fi
}

# ---------------------------------------------------------------- HTTP

# Run a short program to its end, whatever signals come: half a request or half a body does harm.
shielded() (
    trap '' TERM INT HUP
    exec "$@" 3>&-
)

# Send one request: METHOD PATH [BODY_FILE]. Its outcome is $http_status (000: no answer) and $answer.
# A server that has gone quiet is left after 15 s; a slow but moving transfer isn't.
request() {
    local content=()
    [[ -z ${3-} ]] || content=(--data-binary "@$3" --header 'Content-Type: application/json' --header 'Expect:')
    : >"$answer"
    http_status=$(
        shielded curl --silent --show-error --globoff --request "$1" ${content[@]+"${content[@]}"} \
            --connect-timeout 5 --speed-limit 1 --speed-time 15 \
            --output "$answer" --write-out '%{http_code}' "$server$2" 2>"$scratch/curl-error"
    ) || http_status=000
}

answered() {
    case $http_status in
        000 | 408 | 429 | 5??) return 1 ;;
    esac
    failures=0
}

# Send a request about the present task until it is answered. Repeating is safe: the server knows a
# write by its task and delivery, and gives the repeated one the answer of the first.
request_until_answered() {
    until request "$@" && answered; do
        if ((stopping && SECONDS >= stop_deadline)); then
            log "task $task_id: no answer in time ($(trouble)); its timeout will bring it back"
            return 1
        fi
        back_off
    done
}

# What the last request met with, in one line.
trouble() {
    if [[ $http_status == 000 ]]; then
        head -n 1 "$scratch/curl-error"
    else
        printf 'HTTP %s%s' "$http_status" "$(jq -r '": \(.code), \(.detail)"' "$answer" 2>/dev/null)"
    fi
}

# ---------------------------------------------------------------- one task

work_on() { # one line of `claim`
    IFS=$'\x1f' read -r task_id task_delivery task_priority task_has_payload \
        task_queue task_kind task_content_type <<<"$1"
    if ((stopping)); then
        release 0
        return
    fi
    log_verbose "task $task_id: pulled, delivery $task_delivery"
    fetch_payload || return
    run_command
    if ((command_status && stopping)); then
        release 0 # most likely ended by the signal, not by a fault of the task
    elif ((command_status)); then
        release "$retry_delay" "the command failed with status $command_status"
    elif ((output_is_json)) && ! one_json_value "$scratch/output"; then
        release "$retry_delay" "stdout is not one JSON value"
    else
        settle
    fi
}

# The raw bytes are asked for, since JSON that went through jq isn't the same (large numbers, spaces).
fetch_payload() {
    local answer=$scratch/payload
    : >"$answer"
    [[ $task_has_payload == true ]] || return 0
    request_until_answered GET "/v1/tasks/$task_id/payload" || return
    [[ $http_status == 2?? ]] && return
    release "$retry_delay" "its payload can't be had ($(trouble))"
    return 1
}

run_command() {
    set -m # its own process group: Ctrl-C doesn't reach it, and ending it ends all that it started
    TASK_ID=$task_id TASK_QUEUE=$task_queue TASK_STATE=$state TASK_DELIVERY=$task_delivery \
        TASK_KIND=$task_kind TASK_CONTENT_TYPE=$task_content_type \
        exec -- "${command[@]}" <"$scratch/payload" >"$scratch/output" 3>&- &
    running=$!
    set +m
    ((!stopping)) || start_grace_timer # for a signal that came before $running was known
    while
        wait "$running" # a signal ends it early, with a status that means nothing
        kill -0 "$running"
    do :; done 2>/dev/null
    wait "$running" 2>/dev/null
    command_status=$?
    running=
    stop_grace_timer
}

one_json_value() { shielded jq --exit-status --slurp 'length == 1' "$1" >/dev/null 2>&1; }

# The command has succeeded: complete the task, or move it on.
settle() {
    write_outcome
    if [[ -n $next_state ]]; then
        request_until_answered PATCH "/v1/tasks/$task_id" "$scratch/body" || return
    else
        request_until_answered POST "/v1/tasks/$task_id/complete" "$scratch/body" || return
    fi
    case $http_status in
        2??) log_verbose "task $task_id: done" ;;
        404 | 409) log "task $task_id: no longer ours, the outcome is dropped ($(trouble))" ;;
        *) release "$retry_delay" "the outcome was refused ($(trouble))" ;;
    esac
}

write_outcome() (
    trap '' TERM INT HUP
    printf '{"delivery":%s' "$task_delivery"
    if [[ -n $next_state ]]; then
        # An update without a priority would set it to 0.
        printf ',"new_state":%s,"priority":%s' "$next_state_json" "$task_priority"
        ((keep_payload)) || print_output payload content_type
    else
        print_output result result_content_type
    fi
    printf '}'
) >"$scratch/body"

# JSON goes out as the very bytes that the command wrote.
print_output() { # name of the value's field, name of the media type's field
    if ((output_is_json)); then
        printf ',"%s":' "$1"
        cat "$scratch/output"
    else
        printf ',"%s_base64":"' "$1"
        base64 <"$scratch/output" | tr -d '\n'
        printf '"'
    fi
    printf ',"%s":%s' "$2" "$output_type_json"
}

release() { # seconds until it can be pulled again, [reason]
    [[ -z ${2-} ]] || log "task $task_id: $2; released for $1 s"
    [[ -n ${2-} ]] || log_verbose "task $task_id: released"
    printf '{"delivery":%s,"delay":%s}' "$task_delivery" "$1" >"$scratch/body"
    request_until_answered POST "/v1/tasks/$task_id/release" "$scratch/body" || return
    [[ $http_status == 2?? ]] || log "task $task_id: not released, it is probably no longer ours ($(trouble))"
}

# ---------------------------------------------------------------- pulling

# Pull up to --count tasks into $tasks, a line each. False: no answer.
claim() {
    local lines line
    tasks=()
    request POST /v1/tasks/next "$scratch/claim" && answered || return
    [[ $http_status == 200 ]] || die "$server refuses to hand out tasks ($(trouble))"
    lines=$(shielded jq -r "$TASK_LINES" "$answer") || die "$server doesn't answer like a corndog server"
    [[ -n $lines ]] || return 0
    while IFS= read -r line; do tasks+=("$line"); done <<<"$lines"
}

# Names hold no control characters, so this one can separate them.
readonly TASK_LINES='.tasks[] | [
    .id, .delivery, .priority, (has("payload") or has("payload_base64")), .queue, .kind // "", .content_type // ""
] | map(tostring) | join("\u001f")'

work() {
    local task
    while ((!stopping)); do
        if ! claim; then
            back_off
            continue
        fi
        for task in ${tasks[@]+"${tasks[@]}"}; do work_on "$task"; done
        [[ $end_when != once ]] || break
        ((${#tasks[@]} == 0)) || continue
        [[ $end_when != until-empty ]] || break
        nap "$poll_ms"
    done
}

prepare() {
    local program
    for program in curl jq base64; do
        command -v "$program" >/dev/null || die "$program is needed and not installed"
    done
    scratch=$(mktemp -d) || die "no directory for temporary files"
    trap 'rm -rf "$scratch"' EXIT
    answer=$scratch/answer
    output_type_json=$(json_string "$output_type")
    next_state_json=$(json_string "$next_state")
    case ${output_type%%;*} in
        application/json | *+json) output_is_json=1 ;;
        *) output_is_json=0 ;;
    esac
    jq -n '{current_state: $state, count: $count, override_timeout: $timeout, worker_id: $worker, queues: $ARGS.positional}' \
        --arg state "$state" --argjson count "$count" --argjson timeout "$work_timeout" --arg worker "$worker_id" \
        --args -- "${queues[@]}" >"$scratch/claim" || die "the request can't be written"
}

json_string() { jq -n --arg text "$1" '$text'; }

parse_options "$@"
trap request_stop TERM INT HUP
prepare
work
log_verbose "ended"
