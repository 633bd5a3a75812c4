# nginx with two workers, and wrk.
mkdir -p www logs
for n in 1 2 3; do head -c $((n * 30000)) /dev/zero | tr '\0' "$n" >www/$n; done
cat >conf <<C
daemon off; master_process on; worker_processes 2; pid $PWD/pid; error_log $PWD/logs/error; user root;
events { worker_connections 64; }
http { access_log off; sendfile on;
       client_body_temp_path $PWD/t; proxy_temp_path $PWD/t; fastcgi_temp_path $PWD/t;
       uwsgi_temp_path $PWD/t; scgi_temp_path $PWD/t;
       server { listen 127.0.0.1:8081; root $PWD/www; } }
C
nginx -p "$PWD" -c "$PWD/conf" -e "$PWD/logs/error" &
server=$!
for n in $(seq 100); do curl -s -o /dev/null http://127.0.0.1:8081/1 && break; sleep 0.1; done
for n in 1 2 3 4; do curl -s http://127.0.0.1:8081/$n | md5sum; done
wrk -t2 -c4 -d5 http://127.0.0.1:8081/2 >wrk.out
sed 's/^/# /' wrk.out
grep -E 'Non-2xx|Socket errors' wrk.out || echo "no errors"
kill -HUP $server; sleep 1; curl -s http://127.0.0.1:8081/3 | md5sum
kill -QUIT $server; wait $server; echo "server ended with $?"
