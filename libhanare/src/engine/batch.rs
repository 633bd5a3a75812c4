//! Several calls posted at once: one full fence, and one look at sleeping workers.

use super::queue::Queue;
use super::submit::Rest;
use super::what::What;
use super::{Error, error};
use crate::calls::POSTED;
use crate::sys::Vouched;

/// `struct hanare_request`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "as in hanare.h")]
pub struct Request {
    pub what: u64,
    pub args: [u64; 6],
}

impl Queue {
    /// Posts the first of them that there is room for: how many. `enter` is told of each its
    /// ticket, 0 if it has none.
    ///
    /// # Errors
    /// That of the first one.
    pub fn submit_batch(
        &self,
        vouched: Vouched,
        requests: &[Request],
        mut enter: impl FnMut(usize, i64),
    ) -> Result<usize, Error> {
        let classes = self.short.get();
        // Numbers with flags are beyond the table.
        let is_plain = |request: &Request| classes.get(request.what as usize) == Some(&POSTED);
        let room = requests.len().min(self.free_count() as usize);
        let mut plain = 0;
        let mut next = requests[..room].first().filter(|request| is_plain(request));
        while let Some(request) = next {
            let ticket = self.next_free();
            enter(plain, ticket as i64);
            let filled =
                self.ring().fill(vouched, self.next_position(), |index| request.args[index]);
            plain += 1;
            next = requests[..room].get(plain).filter(|request| is_plain(request));
            let what = What::plain(request.what).0;
            match next {
                Some(_) => filled.post_first(what, ticket),
                None => filled.post(what, ticket),
            }
        }
        if plain > 0 && !self.idle.0.has_no_sleeper() {
            self.wake_sleeper();
        }
        for (index, request) in requests.iter().enumerate().skip(plain) {
            let [a, b, c, d, e, f] = request.args;
            let posted = self.submit(vouched, request.what, a, b, c, d, Rest(e, f));
            if posted < 0 {
                return if index == 0 { error(-posted as i32) } else { Ok(index) };
            }
            enter(index, posted);
        }
        Ok(requests.len())
    }
}
