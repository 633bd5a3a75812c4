//! Several calls posted at once: one full fence, and one look at sleeping workers.

use std::sync::atomic::Ordering;

use hanare_ikc::posted::Submission;

use super::execute::What;
use super::queue::Queue;
use super::{Error, error};
use crate::calls::{Classes, POSTED};

/// `struct hanare_request`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "as in hanare.h")]
pub struct Request {
    pub what: u64,
    pub args: [u64; 6],
}

impl Queue {
    /// Posts the first of them that there is room for: how many. `enter` is told of each its ticket, 0 if it has none.
    ///
    /// # Errors
    /// That of the first one.
    pub fn submit_batch(
        &self,
        requests: &[Request],
        mut enter: impl FnMut(usize, i64),
    ) -> Result<usize, Error> {
        // SAFETY: it points to one of the two tables, which are static.
        let classes: &Classes = unsafe { &*self.short.load(Ordering::Relaxed) };
        let is_plain = |request: &Request| classes.get(request.what as usize) == Some(&POSTED);
        let room = self.free_count.load(Ordering::Relaxed) as usize;
        let plain = requests.iter().take(room).take_while(|request| is_plain(request)).count();
        for (index, request) in requests[..plain].iter().enumerate() {
            let count = self.free_count.load(Ordering::Relaxed) - 1;
            self.free_count.store(count, Ordering::Relaxed);
            let ticket = self.free_at(count).load(Ordering::Relaxed);
            enter(index, ticket as i64);
            let what = What::plain(request.what).0;
            let submission = Submission { what, ticket, args: request.args };
            if index + 1 < plain {
                self.ring().post_first(&submission);
            } else {
                self.ring().post(&submission);
            }
        }
        if plain > 0 && !self.idle.0.is_nobody_asleep() {
            self.wake_sleeper();
        }
        for (index, request) in requests.iter().enumerate().skip(plain) {
            let posted = self.submit(request.what, request.args);
            if posted < 0 {
                return if index == 0 { error(-posted as i32) } else { Ok(index) };
            }
            enter(index, posted);
        }
        Ok(requests.len())
    }
}
