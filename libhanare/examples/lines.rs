//! How many lines files have: `lines MODE FILES…`. trap: read one after the other. posted: each
//! read is posted, and awaited as a future. function: a closure for each file.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use hanare::Queue;

const BYTES: usize = 64 << 10;

fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

fn lines_of(path: &str) -> io::Result<usize> {
    let (mut file, mut bytes, mut lines) = (File::open(path)?, vec![0; BYTES], 0);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(lines),
            length => lines += count(&bytes[..length]),
        }
    }
}

async fn posted_lines_of(queue: &Queue, path: &str) -> io::Result<usize> {
    let (file, mut bytes, mut lines) = (Arc::new(File::open(path)?), vec![0; BYTES], 0);
    loop {
        let (result, buffer) = queue.read(file.clone(), bytes)?.await;
        match result? {
            0 => return Ok(lines),
            length => lines += count(&buffer[..length]),
        }
        bytes = buffer;
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one future: any other will do.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mode, paths) = match arguments.split_first() {
        Some((mode, paths)) if !paths.is_empty() => (mode, paths),
        _ => {
            eprintln!("usage: lines trap|posted|function FILES…");
            return ExitCode::from(2);
        }
    };
    let queue = match Queue::builder().workers(2, 2).build() {
        Ok(queue) => queue,
        Err(error) => {
            eprintln!("cannot make a queue: {error}");
            return ExitCode::FAILURE;
        }
    };
    let counts: Vec<io::Result<usize>> = match mode.as_str() {
        "trap" => paths.iter().map(|path| lines_of(path)).collect(),
        "posted" => paths.iter().map(|path| block_on(posted_lines_of(&queue, path))).collect(),
        "function" => queue.scope(|scope| {
            let calls: Vec<_> = paths.iter().map(|path| scope.call(|| lines_of(path))).collect();
            calls.into_iter().map(hanare::Call::join).collect()
        }),
        _ => {
            eprintln!("the mode is one of: trap, posted, function");
            return ExitCode::from(2);
        }
    };
    let mut status = ExitCode::SUCCESS;
    for (path, count) in paths.iter().zip(counts) {
        match count {
            Ok(count) => println!("{count} {path}"),
            Err(error) => {
                eprintln!("cannot read '{path}': {error}");
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}
