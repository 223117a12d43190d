# Turn the output of `furlkit inspect` on metrics files into a table, one line per round.

/ accuracy .*round [0-9]/ {
    for (i = 2; i < NF; i++)
        if ($i == "accuracy") { protocol = $(i - 1); score = $(i + 1) }
    match($0, /round [0-9]+/)
    n = substr($0, RSTART + 6, RLENGTH - 6) + 0
    if (n > last) last = n
    if (!(protocol in column)) { column[protocol] = ++columns; name[columns] = protocol }
    value[n, protocol] = score
    seen[n] = 1
}

END {
    line = sprintf("%5s", "round")
    for (c = 1; c <= columns; c++) line = line sprintf("  %8s", name[c])
    print line
    for (n = 0; n <= last; n++) {
        if (!(n in seen)) continue
        line = sprintf("%5d", n)
        for (c = 1; c <= columns; c++) line = line sprintf("  %8s", value[n, name[c]])
        print line
    }
}
