// An HTTP server and its clients in one process: goroutines, the network poller, timers, GC.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	requests := 200
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var served atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %x", r.URL.Path, sha256.Sum256(body))
	})
	go http.Serve(listener, nil)
	var wait sync.WaitGroup
	var good atomic.Int64
	start := time.Now()
	for client := 0; client < 4; client++ {
		wait.Add(1)
		go func(client int) {
			defer wait.Done()
			for n := 0; n < requests/4; n++ {
				body := make([]byte, 20000)
				body[n] = byte(client)
				path := fmt.Sprintf("/%d/%d", client, n)
				reader, writer := io.Pipe()
				go func() { writer.Write(body); writer.Close() }()
				answer, err := http.Post("http://"+listener.Addr().String()+path, "x/y", reader)
				if err != nil {
					fmt.Println(err)
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if string(text) == fmt.Sprintf("%s %x", path, sha256.Sum256(body)) {
					good.Add(1)
				}
			}
		}(client)
	}
	wait.Wait()
	fmt.Printf("served %d good %d\n", served.Load(), good.Load())
	fmt.Fprintf(os.Stderr, "# %d requests in %v\n", requests, time.Since(start))
	// Garbage, collections, timers and a child process.
	var kept [][]byte
	for n := 0; n < 2000; n++ {
		kept = append(kept, make([]byte, 10000))
		if len(kept) > 100 {
			kept = kept[50:]
		}
	}
	runtime.GC()
	ticks := 0
	ticker := time.NewTicker(5 * time.Millisecond)
	for range ticker.C {
		if ticks++; ticks == 20 {
			break
		}
	}
	out, err := exec.Command("/bin/echo", "from", "a", "child").CombinedOutput()
	fmt.Printf("ticks %d kept %d child %q %v\n", ticks, len(kept), out, err)
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	fmt.Println("collected", statistics.NumGC > 0)
}
