# outside: DPDK's testpmd with pairs of connected ports: each port sends 128 packets, and counts
# those that come in. They are nothing (null), packet sockets and AF_XDP sockets on veths, and
# devices of the machine by VFIO, with memory of the program and with huge pages.
modprobe -a veth vfio-pci
for pair in packet xdp; do
    ip link show $pair-a >link 2>&1 && continue
    ip link add $pair-a type veth peer name $pair-b
    for end in $pair-a $pair-b; do
        sysctl -qw net.ipv6.conf.$end.disable_ipv6=1 # its packets would be counted
        ip link set $end up
    done
done
trap 'echo 0 >/proc/sys/vm/nr_hugepages' EXIT
echo 64 >/proc/sys/vm/nr_hugepages

# Packets of each port. As many come from nowhere as anyone asks for.
counts() {
    awk '/^[0-9]+ +..:..:..:..:..:.. / { name[$1] = $4 }
         /Forward statistics for port/ { port = $6 }
         /RX-dropped:/ { received = name[port] == "net_null" && $2 > 128 ? "many" : $2; lost = $4 }
         /TX-dropped:/ && port != "" {
             print "port " port ", " name[port] ": received " received ", dropped " lost ", sent " $2 ", dropped " $4
             port = ""
         }' said
}
# How many ports have received all.
ready() {
    awk '/NIC statistics for port/ { port = $6 } /RX-missed:/ { received[port] = $2 }
         END { for (port in received) full += received[port] >= 128; print full + 0 }' said
}
testpmd() {
    echo "$1 ports, $2:"
    local ports=$1
    shift 2
    local begin=$SECONDS
    mkfifo commands
    # Whole lines: it echoes commands beside its buffer.
    $RUN stdbuf -oL dpdk-testpmd -m 128 --no-telemetry --file-prefix=suite "$@" -- -i --total-num-mbufs=16384 --no-mlockall \
        <commands >said 2>errors &
    exec 3>commands
    rm commands
    printf '%s\n' 'show port summary all' 'set fwd rxonly' 'start tx_first 4' >&3
    for _ in {1..90}; do
        sleep 1
        kill -0 $! 2>/dev/null || break
        echo 'show port stats all' >&3
        [ "$(ready)" != "$ports" ] || break
    done
    printf '%s\n' stop quit >&3
    exec 3>&-
    wait $!
    status=$?
    counts
    echo "status $status"
    echo "# $((SECONDS - begin)) s"
    [ $status = 0 ] || tail -20 said errors
}
# Gives devices of a vendor and number to VFIO; says with which options testpmd has them.
by_vfio() {
    for path in /sys/bus/pci/devices/*; do
        [ "$(cat "$path/vendor" "$path/device" | xargs)" = "$1" ] || continue
        address=$(basename "$path")
        echo "-a $address"
        [ ! -e "/sys/bus/pci/drivers/vfio-pci/$address" ] || continue
        [ ! -e "$path/driver" ] || echo "$address" >"$path/driver/unbind"
        echo vfio-pci >"$path/driver_override"
        echo "$address" >/sys/bus/pci/drivers_probe
    done
}

virtio=$(by_vfio '0x1af4 0x1041')
e1000=$(by_vfio '0x8086 0x100e')
testpmd 4 'nothing, packet sockets' --no-huge --no-pci --vdev=net_null0 --vdev=net_null1 \
    --vdev=net_af_packet0,iface=packet-a --vdev=net_af_packet1,iface=packet-b
testpmd 2 'AF_XDP' --no-huge --no-pci --vdev=net_af_xdp0,iface=xdp-a --vdev=net_af_xdp1,iface=xdp-b
testpmd 4 'VFIO, memory of the program' --no-huge $virtio $e1000
testpmd 2 'VFIO, huge pages' --in-memory $virtio
