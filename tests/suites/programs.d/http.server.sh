# python3 -m http.server and clients.
mkdir www; echo hello >www/one; head -c 300000 /dev/zero >www/two
python3 -u -m http.server -d www -b 127.0.0.1 8082 >log 2>&1 &
server=$!
for n in $(seq 100); do grep -q Serving log && break; sleep 0.1; done
curl -s http://127.0.0.1:8082/one; curl -s http://127.0.0.1:8082/two | md5sum
curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8082/three
python3 - <<'P'
import threading, urllib.request
good = []
def fetch():
    for n in range(5):
        good.append(len(urllib.request.urlopen('http://127.0.0.1:8082/two').read()))
threads = [threading.Thread(target=fetch) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(good), set(good))
P
kill $server; wait $server; echo "server ended with $?"
