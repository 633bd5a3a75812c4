//! How many lines about programs the log takes: any program can cause some.

use crate::base::lock::{Mutex, rank};
use crate::base::time;
use hanare_core::ratelimit::RateLimit;

/// As many in so long a time as Linux' `printk_ratelimit`.
const INTERVAL_NS: u64 = 5_000_000_000;
const BURST: u32 = 10;

static LIMIT: Mutex<RateLimit, rank::LogLimit> = Mutex::new(RateLimit::new(INTERVAL_NS, BURST));

/// Whether one more line may be written, of those that any program can cause.
pub fn may_say() -> bool {
    let shown = LIMIT.lock().show(time::since_boot_ns());
    if let Some(missed @ 1..) = shown {
        crate::info!("{missed} lines about programs suppressed");
    }
    shown.is_some()
}
