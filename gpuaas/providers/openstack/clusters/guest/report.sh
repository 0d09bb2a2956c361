#!/bin/bash
# Tells the portal how far this machine is: gpuaas-report STAGE [MESSAGE]. The token is read by curl, so no list of processes shows it.
# What could not be sent is kept, and sent again by gpuaas-report alone, which a timer calls every minute.
set -u
etc=${GPUAAS_ETC:-/etc/gpuaas}
unsent=${GPUAAS_RUN:-/run}/gpuaas-unsent # in memory: the disk may be full
umask 077
. "$etc/node.env"
exec 7> "$unsent.lock"
flock 7
pauses=${GPUAAS_PAUSES:-1 2 4 8 15 30 60 60 60}
if [ "$#" = 0 ]; then
  [ -e "$unsent" ] || exit 0
  pauses=0
else
  python3 -c 'import json, os, sys
told = os.fsencode(sys.argv[2]).decode(errors="replace")
cause, line, rest = told.partition("\n")
print(json.dumps({"stage": sys.argv[1], "message": cause[:1000] + line + rest[-2000:]}))' "$1" "${2:-}" > "$unsent" || exit 1
fi
for pause in $pauses; do
  code=$(curl --silent --show-error --max-time 20 --output /dev/null --write-out '%{http_code}' --stderr "$unsent.why" \
    --header @"$etc/report.header" --header 'Content-Type: application/json' \
    --data-binary @"$unsent" "$GPUAAS_REPORT_URL") || code=000
  case $code in
    2?? | 409) rm "$unsent"; exit 0 ;; # 409: an earlier try has come through
    000 | 429 | 5??) sleep "$pause" ;;
    *) rm "$unsent"; echo "the portal refuses the report ($code)" >&2; exit 1 ;;
  esac
done
if [ "$code" = 000 ]; then tail --lines 1 "$unsent.why" >&2; else echo "the portal answers $code" >&2; fi
exit 1
