# outside: RDMA over soft RoCE: memory that a device keeps while the program forks; an example of
# libibverbs, perftest's writes, and rping, each with both ends here and with one.
if ! rdma link show rxe0/1 >link 2>&1; then
    modprobe rdma_rxe && modprobe ib_uverbs &&
        ip link add rdma-a type veth peer name rdma-b && ip addr add 10.87.0.1/24 dev rdma-a &&
        ip link set rdma-a up && ip link set rdma-b up && rdma link add rxe0 type rxe netdev rdma-a ||
        echo 'there is no soft RoCE'
    sleep 1
fi
$RUN "$BUILD/rdma"
# With -o the device keeps no memory, but finds it as it needs it; before 6.15 it refuses.
for options in "" -o; do
    for client in "$RUN" ""; do
        $RUN ibv_rc_pingpong -g 1 -n 50 -d rxe0 $options >server 2>&1 &
        sleep 2
        $client ibv_rc_pingpong -g 1 -n 50 -d rxe0 $options localhost 2>&1 | sed -n "s/ in [0-9].*/ $options/p"
        wait
        sed -n 's/ in [0-9].*//p' server
    done
done
# Sizes and counts; how fast it is is nobody's promise here.
for client in "$RUN" ""; do
    $RUN ib_write_bw -d rxe0 -x 1 -s 4096 -n 100 -F >server 2>&1 &
    sleep 2
    $client ib_write_bw -d rxe0 -x 1 -s 4096 -n 100 -F localhost 2>&1 | awk '$1 == 4096 { print "written:", $1, $2 }'
    wait
done
for client in "$RUN" ""; do
    $RUN rping -s -a 10.87.0.1 -C 5 -v >server 2>&1 &
    sleep 2
    $client rping -c -a 10.87.0.1 -C 5 -v 2>&1 | grep '^ping data'
    wait
    grep 'ping data' server
done
