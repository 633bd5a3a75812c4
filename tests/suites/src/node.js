// An HTTP server and its clients, files, streams, worker threads, children, timers, crypto.
const http = require('http'), fs = require('fs'), crypto = require('crypto'), zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFile } = require('child_process');

if (!isMainThread) {
  let sum = 0;
  for (let n = 0; n < 100000; n++) sum = (sum * 31 + n + workerData) % 1000003;
  parentPort.postMessage(sum);
} else {
  main().then(() => process.exit(0), (error) => { console.log(error); process.exit(1); });
}

function get(port, path) {
  return new Promise((resolve, reject) => {
    http.get({ port, path, host: '127.0.0.1' }, (answer) => {
      let text = '';
      answer.on('data', (part) => { text += part; });
      answer.on('end', () => resolve(text));
    }).on('error', reject);
  });
}

async function main() {
  const server = http.createServer((request, answer) => {
    answer.end(crypto.createHash('sha256').update(request.url).digest('hex'));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  let good = 0;
  for (let n = 0; n < 50; n++) {
    const wanted = crypto.createHash('sha256').update('/' + n).digest('hex');
    if (await get(server.address().port, '/' + n) === wanted) good++;
  }
  console.log('answers', good);
  server.close();
  const sums = await Promise.all([1, 2, 3].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  })));
  console.log('workers', sums.join(' '));
  const folder = fs.mkdtempSync('/tmp/node-');
  await Promise.all([...Array(20).keys()].map((n) =>
    fs.promises.writeFile(`${folder}/${n}`, String(n).repeat(1000))));
  console.log('files', fs.readdirSync(folder).length,
    fs.readdirSync(folder).map((name) => fs.statSync(`${folder}/${name}`).size).reduce((a, b) => a + b));
  fs.rmSync(folder, { recursive: true });
  console.log('zlib', zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(300000, 'abc'))).length);
  console.log('key', crypto.pbkdf2Sync('a', 'b', 1000, 16, 'sha256').toString('hex'));
  const said = await new Promise((resolve) =>
    execFile('/bin/echo', ['a', 'child'], (error, out) => resolve(`${error} ${out.trim()}`)));
  console.log('child', said);
  const start = Date.now();
  await new Promise((resolve) => setTimeout(resolve, 100));
  console.log('timer', Date.now() - start >= 99);
}
