# A Go HTTP server with clients, garbage collection, timers and a child.
"$BUILD/http"
GOMAXPROCS=1 "$BUILD/http"
