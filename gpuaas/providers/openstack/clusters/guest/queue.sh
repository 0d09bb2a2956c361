#!/bin/bash
# Twice a minute, on the head: opens the partitions once the workers have come in. Tells the portal how many GPUs jobs have and wait for
# in each partition, which is a pool, and which workers run jobs or are unhealthy, what each person has used, how the portal's jobs are,
# and who is let in. Then lets in and shuts out as the answer says, submits and cancels jobs, drains the workers that are to go, and
# forgets those that are gone.
set -euo pipefail
etc=${GPUAAS_ETC:-/etc/gpuaas}
. "$etc/node.env"
exec 8> "$etc/queue.lock"
flock 8 # of two runs at once the later one has the newer answer
cluster=${GPUAAS_NODE%-control-1}
names=$etc/logins.json # of the logins that are let in
reason=gpuaas # of what was drained here, with what others had drained it for
instead="$reason instead of "
# of a job that may run in several partitions the first counts; one that is held back, or waits for another or for its
# time, asks for nothing, nor does one that Slurm will not start. Only a worker that was drained here has no job and gets none: any other
# may work again at any moment
count='
FILENAME == "/dev/fd/3" {
  if (index($1, cluster "-") != 1 || !match($1, /-[0-9]+$/)) next
  pool = substr($1, length(cluster) + 2, RSTART - length(cluster) - 2); number = substr($1, RSTART + 1) + 0
  if ($1 in known) next
  known[$1]; seen[pool]
  state = $2; gsub(/[^a-z]/, "", state)
  reason = ""
  for (word = 3; word <= NF; word++) reason = reason (reason ? " " : "") $word
  goes = reason == ours || index(reason, instead) == 1
  sub(/^unhealthy: /, "", reason)
  gsub(/[^ -~]|["\\]/, "", reason)
  if (reason == "") reason = "it is " state
  # what is drained to go is well, and so is what its health check has not drained
  if (state ~ /^(down|drain|fail)/ && !goes && reason != "none") {
    unhealthy[pool] = unhealthy[pool] sprintf("%s{\"number\": %d, \"reason\": \"%s\"}", unhealthy[pool] ? ", " : "", number, reason)
  }
  if (state == "drained" && goes) next
  if (number > least[pool]) least[pool] = number
  if (state ~ /^(alloc|allocated|mixed|completing|draining)$/) busy[pool] = busy[pool] (busy[pool] ? ", " : "") number
  next
}
{
  split($2, partitions, ","); pool = partitions[1]; gpus = 0
  parts = split($3, resources, ",")
  for (each = 1; each <= parts; each++) if (resources[each] ~ /^gres\/gpu=/) gpus = substr(resources[each], 10) + 0
  if (gpus == 0 || $1 ~ /^(SE|RH|RD)$/) next
  if ($1 != "PD") { used[pool] += gpus; seen[pool] }
  else if ($4 !~ /^\(?(Job(Held|Hold)|Dependency|BeginTime|BadConstraints|PartitionDown|launch)/) {
    waits[pool] += gpus; queued[pool]++; seen[pool]
  }
}
function most(amount) { return amount < 1000000 ? amount : 1000000 } # the portal takes no more
END {
  printf "\"pools\": ["
  for (pool in seen) {
    printf "%s{\"pool\": \"%s\", \"used_gpus\": %d, \"pending_gpus\": %d, \"queued\": %d, ",
      comma, pool, most(used[pool]), most(waits[pool]), most(queued[pool])
    printf "\"least\": %d, \"busy\": [%s], \"unhealthy\": [%s]}", least[pool], busy[pool], unhealthy[pool]
    comma = ", "
  }
  print "], "
}'
# Partitions are closed when the controller starts. A worker that has not come in since has GPUs without a type there, and those of a job
# that starts and ends meanwhile would stay taken. Those that do not answer get no jobs: nobody waits for them
partitions_open() {
  local awaited name
  awaited=$(timeout 10 scontrol --oneliner show node | grep ' SlurmdStartTime=None ' |
    grep --invert-match --extended-regexp ' State=(DOWN|[A-Z+]*[*])') || true
  [ -z "$awaited" ] || return 0
  timeout 10 scontrol --oneliner show partition |
    sed --quiet --regexp-extended 's/^PartitionName=([^ ]+) .* State=DOWN .*/\1/p' |
    while read -r name; do scontrol update partitionname="$name" state=UP; done
}
partitions_open || true
workers() { timeout 10 sinfo --noheader --Node --Format=NodeList:100,StateLong:40,Reason:100; }
let_in() { if [ -e "$names" ]; then cat "$names"; else echo '[]'; fi; }
# today's use, and that of all days since the one before the last that the portal has accepted; where those are too much for Slurm's
# accounting to tell in time, the first of them
export TZ=$GPUAAS_ZONE
first=$(date +%F) next=$(date --date '-1 day' +%F)
[ ! -s "$etc/usage.since" ] || first=$(cat "$etc/usage.since")
usage_of_days() {
  local following
  usage=$(timeout 10 gpuaas-usage "$first") && return
  echo "the use of jobs since $first is not known in time: $first alone is asked for" >&2
  usage=$(timeout 20 gpuaas-usage "$first" "$first") || usage=''
  following=$(date --date "$first +1 day" +%F)
  if [[ $following < $next ]]; then next=$following; fi
}
accepted() {
  echo "$next" > "$etc/usage.since.half"
  mv "$etc/usage.since.half" "$etc/usage.since"
}
post() { # PARTS: what Slurm does not say is left out, since nobody may be let in for longer because of that
  printf '{%s"logins": %s}' "$1" "$(let_in)" |
    curl --silent --show-error --fail --max-time 20 --header @"$etc/queue.header" \
      --header 'Content-Type: application/json' --data-binary @- "$GPUAAS_QUEUE_URL"
}
# the workers before the jobs: what starts in between is seen with its job
pools='' failed=0
if nodes=$(workers) &&
  jobs=$(timeout 10 squeue --noheader --array --Format=StateCompact:20,Partition:500,tres-alloc:500,Reason:100); then
  pools=$(LC_ALL=C awk -v cluster="$cluster" -v ours="$reason" -v instead="$instead" "$count" /dev/fd/3 - 3<<< "$nodes" <<< "$jobs")
fi
usage_of_days
about_jobs() { timeout 30 gpuaas-jobs report "$etc" || true; }
states=$(about_jobs)
# whoever may no longer enter is shut out also when the portal takes nothing of what Slurm says, and what Slurm says is not left out
# because of what jobs have written
if answer=$(post "$pools$usage$states") || { [ -n "$states" ] && answer=$(post "$pools$usage"); }; then
  [ -z "$usage" ] || accepted
else
  pools=''
  answer=$(post '')
fi
before=$(let_in)
gpuaas-logins "$etc" "$cluster" "$GPUAAS_JOBS_OF_REMOVED" <<< "$answer" || failed=1
did=$(timeout 60 gpuaas-jobs take "$etc" <<< "$answer") || failed=1
if [ "$(let_in)" != "$before" ] || [ -n "$did" ]; then
  post "$(about_jobs)" > /dev/null || failed=1 # people wait for it
fi
[ -n "$pools" ] || exit 1
orders=$(python3 -c 'import json, sys
for one in json.load(sys.stdin).get("pools") or []:
    print(one["pool"], int(one["workers"]), int(one["machines"]))' <<< "$answer")
workers | sort --unique | while read -r node state why; do
  number=${node##*-} pool=${node#"$cluster-"}
  pool=${pool%-*}
  while read -r name most machines; do
    [ "$name" = "$pool" ] || continue
    if [ "$number" -gt "$machines" ] && [[ $state == *'*' ]]; then
      scontrol delete nodename="$node" || true # refused while Slurm still counts a job there
    elif [ "$number" -gt "$most" ]; then
      if [[ $state != drain* ]]; then
        scontrol update nodename="$node" state=drain reason="$reason" || true
      elif [[ $why != "$reason" && $why != "$instead"* ]]; then # so that nothing else lets it work
        scontrol update nodename="$node" state=drain reason="$instead$why" || true
      fi
    elif [[ $state == drain* && $why == "$reason" ]]; then
      scontrol update nodename="$node" state=resume || true
    elif [[ $state == drain* && $why == "$instead"* ]]; then
      scontrol update nodename="$node" state=drain reason="${why#"$instead"}" || true
    fi
  done <<< "$orders"
done
exit "$failed"
