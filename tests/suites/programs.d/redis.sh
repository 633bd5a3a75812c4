# Redis: the server, its command line and redis-benchmark.
redis-server --port 0 --unixsocket "$PWD/socket" --save '' --daemonize no --logfile log &
server=$!
for n in $(seq 100); do [ -S socket ] && break; sleep 0.1; done
cli() { redis-cli -s "$PWD/socket" "$@"; }
cli set one 1; cli incr one; cli lpush list a b c; cli lrange list 0 -1
cli eval 'local s = 0 for i = 1, 1000 do s = s + i end return s' 0
redis-benchmark -s "$PWD/socket" -n 2000 -c 10 -q -t ping,set,get,lpush,lrange_100 2>&1 |
    tr '\r' '\n' | grep 'requests per second' | sed 's/^/# /'
cli dbsize; cli strlen key:__rand_int__
cli bgsave; for n in $(seq 50); do [ -f dump.rdb ] && break; sleep 0.2; done
ls dump.rdb
cli shutdown nosave; wait $server; echo "server ended with $?"
