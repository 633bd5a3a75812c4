//! Every x86-64 system call, and the kernel that serves it.
//!
//! One row a call (`table.rs`, of what `row.rs` says); a number without a row is `ENOSYS` and never
//! reaches Linux. `docs/syscalls.md` is generated from here (`cargo xtask syscalls`).

pub mod arguments;
pub mod capture;
pub mod choices;
mod native;
pub mod pointers;
mod row;
mod table;
use arguments::Argument;
pub use native::{NATIVE, NATIVE_WORDS, SHOWN};
pub use row::{By, Hook, PRCTL_RIGHTS, Restart, Row, Service, prctl_changes_rights};
use table::ROWS;

/// One more than the highest number in the table.
pub const NUMBERS: usize = ROWS[ROWS.len() - 1].number as usize + 1;

const NO_ROW: u16 = u16::MAX;

/// Number to index in [`ROWS`].
static INDEX: [u16; NUMBERS] = {
    let mut index = [NO_ROW; NUMBERS];
    let mut row = 0;
    while row < ROWS.len() {
        assert!(row == 0 || ROWS[row - 1].number < ROWS[row].number, "rows are sorted");
        assert!(ROWS[row].args <= 6);
        index[ROWS[row].number as usize] = row as u16;
        row += 1;
    }
    index
};

/// Whether call `number` is in a list of calls.
pub(crate) const fn is_one_of(number: u32, list: &[u32]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if list[at] == number {
            return true;
        }
        at += 1;
    }
    false
}

/// The row of a call; `None`: no such call, `ENOSYS`.
#[must_use]
pub const fn row(number: u64) -> Option<&'static Row> {
    if number >= NUMBERS as u64 || INDEX[number as usize] == NO_ROW {
        return None;
    }
    Some(&ROWS[INDEX[number as usize] as usize])
}

/// Descriptions of a call's arguments; empty: plain words.
#[must_use]
pub fn arguments(number: u64) -> &'static [Argument] {
    row(number).map_or(&[], |row| row.arguments)
}

/// Every row, by number.
#[must_use]
pub fn rows() -> &'static [Row] {
    ROWS
}

/// Which thread of the proxy may execute a call, by its number.
#[must_use]
pub const fn executed_by(number: u64) -> By {
    match row(number) {
        Some(row) => row.by,
        None => By::Own,
    }
}

/// Name of a call, for logs; `?` if there is none.
#[must_use]
pub fn name(number: u64) -> &'static str {
    row(number).map_or("?", |row| row.name)
}

#[cfg(test)]
mod tests;
