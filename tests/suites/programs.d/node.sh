# Node.js: server, clients, worker threads, files, a child.
node "$SUITES/src/node.js"
