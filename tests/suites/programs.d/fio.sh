# outside: fio writes, reads and verifies, by calls, libaio and io_uring: files by the page cache
# and around it, and an NVMe disk, where the LWK's driver serves the calls. Linux verifies all that
# was written.
disk=/dev/nvme0n1
# Blocks of the run before would be as right.
[ -b $disk ] && dd if=/dev/zero of=$disk bs=1M count=16 oflag=direct status=none || echo 'there is no NVMe disk'
trap 'umount mounted 2>/dev/null' EXIT
modprobe -a loop ext4 && truncate -s 32M image && mkfs.ext4 -q image && mkdir mounted && mount -o loop image mounted ||
    echo 'there is no file system for direct I/O'

# A job for each place and engine, one after the other.
jobs() {
    printf '%s\n' '[global]' bs=4k size=512k verify=crc32c verify_fatal=1 randseed=7 stonewall
    local number=0
    for engine in psync libaio io_uring; do
        for place in cached direct disk; do
            number=$((number + 1))
            case $place in
            cached) where="filename=$engine" ;;
            direct) where="filename=mounted/$engine" ;;
            disk) where="filename=$disk offset=${number}M" ;;
            esac
            for rw in $1; do
                printf '%s\n' "[$rw-$place-$engine]" $where rw=$rw direct=$([ $place = cached ]; echo $?)
                case ${2:-$engine} in
                psync) echo ioengine=psync ;;
                *) printf '%s\n' ioengine=$engine iodepth=8 ;;
                esac
            done
        done
    done
}
# Counts of bytes, accesses, short and dropped ones; times differ.
counts() {
    python3 -c '
import json, sys
for job in json.load(open(sys.argv[1]))["jobs"]:
    print(job["jobname"], "error", job["error"], *(text for way in ("read", "write") for text in
          (way, job[way]["io_bytes"], job[way]["total_ios"], job[way]["short_ios"], job[way]["drop_ios"])))' "$1"
}
served() {
    hanare status | sed -n 's/.* by the driver nvme, used \([0-9]*\) times.*/\1/p'
}

# Each block once, then half of them again.
jobs 'write randrw' >writing
jobs read psync >reading
before=$(served)
$RUN fio --output-format=json --output=written writing
echo "status $?"
counts written
after=$(served)
fio --output-format=json --output=read reading
echo "status $?"
counts read
# What psync accessed on the disk: 128 blocks written, read, and accessed anew.
[ -z "$RUN" ] || [ $((after - before)) -ge 384 ] || echo "the driver of NVMe served $((after - before))"
echo "# the driver of NVMe served $((after - before))"
