#!/bin/sh
# Requests made from the server's own description, by schemathesis: fuzz.sh SCHEMATHESIS SECONDS
# No answer may be a 5xx, of a status, type or form that /openapi.json does not describe. Models are neither loaded nor
# fetched nor unloaded by it.
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Its own bound waits for requests that are under way; the other one does not.
timeout --signal=INT --kill-after=10 $(($2 + 30)) "$1" run "$ZINC_URL/openapi.json" --max-time "$2" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --exclude-path-regex '/(load|unload|pull)$' --request-timeout 120 --workers 2 --max-examples 60 --continue-on-failure \
    >"$log" 2>&1 || true
cat "$log"
# What it finds is headed so. That time was up, or that a generator of its own gave up, is no fault of the server.
grep -q "Loaded specification" "$log" && ! grep -q "= FAILURES =" "$log"
