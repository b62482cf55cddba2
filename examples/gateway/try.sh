#!/bin/sh
# What README.md shows, with a check of every answer; `cargo xtask examples` runs it.
set -eu
cd "$(dirname "$0")"
api=${API:-127.0.0.1:9000} gateway=${GATEWAY:-127.0.0.1:8000}
data=$(mktemp -d)
python3 api.py "$api" &
api_pid=$!
"${TOLLGATE:-tollgate}" serve --config tollgate.conf --rules rules.yaml --gateway "$gateway" \
    --upstream "http://$api" --http 127.0.0.1:0 --grpc 127.0.0.1:0 --admin 127.0.0.1:0 --data "$data" --quiet &
tollgate_pid=$!
trap 'kill $api_pid $tollgate_pid; wait; rm -rf "$data"' EXIT

# Both need a moment until they listen, and the rules until they are read.
tries=0
until [ "$(curl -s -o "$data/ready" -w '%{http_code}' "http://$gateway/")" = 200 ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "the gateway does not answer" >&2; exit 1; }
    sleep 0.1
done

# expect STATUS ARGUMENTS-OF-CURL...
expect() {
    want=$1
    shift
    got=$(curl -s -o "$data/body" -w '%{http_code}' "$@")
    if [ "$got" != "$want" ]; then
        echo "curl $*: $got instead of $want" >&2
        cat "$data/body" >&2
        exit 1
    fi
}
expect 200 "http://$gateway/notes/1"
grep -q '^GET /notes/1 for 127.0.0.1$' "$data/body"
for _ in 1 2 3 4 5; do expect 401 -d password=x "http://$gateway/login"; done
expect 429 -d password=x "http://$gateway/login"
grep -q 'too many attempts' "$data/body"
expect 429 -d password=x -H 'X-Forwarded-For: 192.0.2.7' "http://$gateway/x/..//login" --path-as-is
expect 200 "http://$gateway/report" --next -s -o /dev/null "http://$gateway/report"
echo "the API is protected"
