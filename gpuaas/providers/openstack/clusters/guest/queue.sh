#!/bin/bash
# Twice a minute, on the head: tells the portal how many GPUs jobs have and wait for in each partition, which is a pool.
set -euo pipefail
etc=${GPUAAS_ETC:-/etc/gpuaas}
. "$etc/node.env"
# of a job that may run in several partitions the first counts; one that is held back, or waits for another or for its
# time, asks for nothing
count='
{
  split($2, partitions, ","); pool = partitions[1]; gpus = 0
  parts = split($3, resources, ",")
  for (each = 1; each <= parts; each++) if (resources[each] ~ /^gres\/gpu=/) gpus = substr(resources[each], 10) + 0
  if (gpus == 0) next
  if ($1 != "PD") { used[pool] += gpus; seen[pool] }
  else if ($4 !~ /^(JobHeld|Dependency|BeginTime)/) { waits[pool] += gpus; queued[pool]++; seen[pool] }
}
END {
  printf "{\"pools\": ["
  for (pool in seen) {
    printf "%s{\"pool\": \"%s\", \"used_gpus\": %d, \"pending_gpus\": %d, \"queued\": %d}",
      comma, pool, used[pool], waits[pool], queued[pool]
    comma = ", "
  }
  print "]}"
}'
jobs=$(squeue --noheader --array --Format=StateCompact:20,Partition:500,tres-alloc:500,Reason:100)
awk "$count" <<< "$jobs" |
  curl --silent --show-error --fail --max-time 20 --output /dev/null --header @"$etc/queue.header" \
    --header 'Content-Type: application/json' --data-binary @- "$GPUAAS_QUEUE_URL"
