//! The crate: futures, buffers, scopes, closures.

use std::fs::File;
use std::future::Future;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use hanare::{Queue, is_cancelled};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one future.
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

fn pipes() -> (Arc<PipeReader>, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    (Arc::new(reader), writer)
}

#[test]
fn an_operation_gives_its_buffer_back() {
    let queue = Queue::new().unwrap();
    let (reader, mut writer) = pipes();
    let read = queue.read(reader, vec![0; 10]).unwrap();
    writer.write_all(b"four").unwrap();
    let (result, buffer) = read.wait();
    assert_eq!((result.unwrap(), &buffer[..4]), (4, &b"four"[..]));
}

#[test]
fn futures_are_woken() {
    let queue = Queue::builder().workers(2, 2).build().unwrap();
    for round in 0..200 {
        let (reader, mut writer) = pipes();
        let read = queue.read(reader, vec![0; 10]).unwrap();
        let written = queue.call(move || {
            std::thread::sleep(Duration::from_micros(round * 10));
            writer.write_all(b"four").unwrap();
            round
        });
        let both = async { (written.await, read.await) };
        let (sent, (result, buffer)) = block_on(both);
        assert_eq!((sent, result.unwrap(), buffer[0]), (round, 4, b'f'));
    }
}

#[test]
fn an_operation_that_is_dropped_is_cancelled_and_its_buffer_kept() {
    let queue = Queue::new().unwrap();
    let (reader, mut writer) = pipes();
    for _ in 0..100 {
        drop(queue.read(reader.clone(), vec![0; 100]).unwrap());
    }
    // The forgotten one has the first 50 bytes.
    std::mem::forget(queue.read(reader.clone(), vec![0; 50]).unwrap());
    writer.write_all(&[7; 100]).unwrap();
    let (result, bytes) = queue.read(reader, vec![0; 100]).unwrap().wait();
    assert_eq!((result.unwrap(), bytes[49]), (50, 7));
}

#[test]
fn a_scope_waits_for_what_borrows() {
    let queue = Queue::builder().workers(2, 2).build().unwrap();
    let (mut reader, writer) = pipe().unwrap();
    let (mut into, numbers) = ([0; 4], vec![1_u64, 2, 3]);
    let total = AtomicUsize::new(0);
    let sum = queue.scope(|scope| {
        let sum = scope.call(|| numbers.iter().sum::<u64>());
        for _ in 0..1000 {
            drop(scope.call(|| total.fetch_add(1, Ordering::Relaxed)));
        }
        let written = scope.write(writer.as_fd(), b"four").unwrap();
        assert_eq!(written.wait().unwrap(), 4);
        let _never_awaited = scope.read(reader.as_fd(), &mut into).unwrap();
        sum.join()
    });
    assert_eq!((sum, total.into_inner(), &into), (6, 1000, b"four"));
    drop(writer);
    assert_eq!(reader.read(&mut into).unwrap(), 0);
}

#[test]
fn files_are_written_where_it_is_said() {
    let queue = Queue::new().unwrap();
    let path = std::env::temp_dir().join(format!("hanare-test-{}", std::process::id()));
    let file = Arc::new(
        File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap(),
    );
    let writes: Vec<_> = (0..50_u8)
        .map(|index| queue.write_at(file.clone(), vec![index; 10], u64::from(index) * 10).unwrap())
        .collect();
    assert!(writes.into_iter().all(|write| write.wait().0.unwrap() == 10));
    queue.sync(file.clone()).unwrap().wait().0.unwrap();
    let (result, bytes) = queue.read_at(file, vec![0; 500], 0).unwrap().wait();
    assert_eq!(result.unwrap(), 500);
    assert!(bytes.iter().enumerate().all(|(index, &byte)| usize::from(byte) == index / 10));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn errors_are_errors() {
    let queue = Queue::new().unwrap();
    let file = File::open("/dev/null").unwrap();
    let (result, _) = queue.write(file, b"x".to_vec()).unwrap().wait();
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    // SAFETY: it is refused.
    let refused = unsafe { queue.submit(libc::SYS_mmap, [0; 6], ()) };
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert!(Queue::builder().depth(0).build().is_err());
}

#[test]
fn more_closures_than_there_is_room_for_are_called() {
    let queue = Queue::builder().depth(4).build().unwrap();
    let calls: Vec<_> = (0..1000).map(|number| queue.call(move || number * 2)).collect();
    assert!(!is_cancelled());
    assert!(calls.into_iter().enumerate().all(|(index, call)| call.join() == index * 2));
    assert_eq!(queue.remote_workers(), 0);
}

#[test]
fn what_was_posted_is_done_before_the_queue_ends() {
    let done = Arc::new(AtomicUsize::new(0));
    let queue = Queue::new().unwrap();
    for _ in 0..100 {
        let done = done.clone();
        drop(queue.call(move || {
            std::thread::sleep(Duration::from_micros(10));
            done.fetch_add(1, Ordering::Relaxed);
        }));
    }
    drop(queue);
    assert_eq!(done.load(Ordering::Relaxed), 100);
}
