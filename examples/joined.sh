# For the summaries: joined FILE... prints the files that exist, separated by commas.

joined() {
    found=
    for file in "$@"; do
        if [ -e "$file" ]; then found=$found${found:+,}$file; fi
    done
    echo "$found"
}
