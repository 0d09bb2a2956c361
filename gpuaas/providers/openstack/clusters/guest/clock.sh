clock_is_right() { # by the portal's; whether the certificate is valid is not asked, since a wrong clock finds none that is
  local theirs apart side=behind unit=minutes
  # a portal that is away, or does not say, proves nothing
  theirs=$(curl --silent --head --insecure --max-time 10 "$GPUAAS_REPORT_URL" | tr --delete '\r' |
    sed --quiet 's/^[Dd]ate: *//p') || return 0
  if [ -z "$theirs" ] || ! theirs=$(date --date="$theirs" +%s); then return 0; fi
  apart=$((theirs - $(date +%s)))
  if [ "$apart" -lt 0 ]; then apart=$((-apart)) side='ahead of'; fi
  [ "$apart" -gt 120 ] || return 0 # Slurm's credentials are valid for two minutes
  apart=$((apart / 60))
  if [ "$apart" -ge 120 ]; then apart=$((apart / 60)) unit=hours; fi
  if [ "$unit" = hours ] && [ "$apart" -ge 48 ]; then apart=$((apart / 24)) unit=days; fi
  echo "it is $apart $unit $side the portal's"
  return 1
}
