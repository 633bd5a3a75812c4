//! The route of a delegated call: which server executes it, and how the server gets at the memory
//! that the call refers to (`docs/link.md`).
//!
//! A [`Route`] is one of the pairs in [`Route::ALL`]; no other pair can be made. [`of_row`] says
//! which routes a row of the table of system calls allows; [`choose`] takes one of them by the
//! state of the calling thread. A route may turn out not to be open to one particular call (its
//! arguments are too large, no server is free): the caller then strikes out what led to the route
//! ([`Caller::without`]) and chooses again. [`Route::DIRECT`] is open to every call.

use crate::bounce;
use crate::marshal;
use crate::native;
use crate::syscalls::arguments::Argument;
use crate::syscalls::{By, NATIVE, NUMBERS, Row, Service, row};

/// The task on Linux, or the code on the LWK, that executes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The calling thread's own worker.
    Direct,
    /// A server of the process' request box.
    Boxed,
    /// A pooled proxy, of a native task.
    Pooled,
    /// The calling thread itself, while its code executes on Linux.
    Utility,
    /// A driver of the LWK that has claimed the descriptor.
    Claimed,
}

/// How a server gets at the memory that a call refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// The program's memory is mapped at the same addresses.
    Mapped,
    /// Small pieces lie in the scratch page of the thread's slot.
    Bounced,
    /// All of it lies in the message of the thread's slot.
    Copied,
    /// All of it lies in pages of the pooled proxy.
    Packed,
}

impl Server {
    /// The word for it in documents and generated tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Boxed => "boxed",
            Self::Pooled => "pooled",
            Self::Utility => "utility",
            Self::Claimed => "claimed",
        }
    }
}

impl Arguments {
    /// The word for it in documents and generated tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Bounced => "bounced",
            Self::Copied => "copied",
            Self::Packed => "packed",
        }
    }
}

/// A server together with a way for the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    server: Server,
    arguments: Arguments,
}

impl Route {
    /// The thread's own worker, which has the program's memory mapped.
    pub const DIRECT: Self = Self::new(Server::Direct, Arguments::Mapped);
    /// The thread's own worker, by the scratch page.
    pub const BOUNCED: Self = Self::new(Server::Direct, Arguments::Bounced);
    /// The thread's own worker, by the message of the slot.
    pub const COPIED: Self = Self::new(Server::Direct, Arguments::Copied);
    /// A server of the request box, which has the program's memory mapped.
    pub const BOXED: Self = Self::new(Server::Boxed, Arguments::Mapped);
    /// A server of the request box, by the message of the slot.
    pub const BOXED_COPIED: Self = Self::new(Server::Boxed, Arguments::Copied);
    /// A pooled proxy, by its pages.
    pub const POOLED: Self = Self::new(Server::Pooled, Arguments::Packed);
    /// The thread itself on Linux, whose memory is mapped there.
    pub const UTILITY: Self = Self::new(Server::Utility, Arguments::Mapped);
    /// A driver of the LWK, which reads and writes the program's memory as a local call does.
    pub const CLAIMED: Self = Self::new(Server::Claimed, Arguments::Mapped);

    /// Every route that there is.
    pub const ALL: [Self; 8] = [
        Self::DIRECT,
        Self::BOUNCED,
        Self::COPIED,
        Self::BOXED,
        Self::BOXED_COPIED,
        Self::POOLED,
        Self::UTILITY,
        Self::CLAIMED,
    ];

    const fn new(server: Server, arguments: Arguments) -> Self {
        Self { server, arguments }
    }

    /// The server that executes the call.
    #[must_use]
    pub const fn server(self) -> Server {
        self.server
    }

    /// How the server gets at the memory.
    #[must_use]
    pub const fn arguments(self) -> Arguments {
        self.arguments
    }

    const fn bit(self) -> u8 {
        let mut at = 0;
        while at < Self::ALL.len() {
            let route = Self::ALL[at];
            if route.server as u8 == self.server as u8
                && route.arguments as u8 == self.arguments as u8
            {
                return 1 << at;
            }
            at += 1;
        }
        0
    }
}

/// A set of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routes(u8);

impl Routes {
    /// Whether the set has this route.
    #[must_use]
    pub const fn has(self, route: Route) -> bool {
        self.0 & route.bit() != 0
    }

    /// The routes of the set, in the order of [`Route::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Route> {
        Route::ALL.into_iter().filter(move |&route| self.has(route))
    }

    const fn with(self, route: Route, is_allowed: bool) -> Self {
        if is_allowed { Self(self.0 | route.bit()) } else { self }
    }
}

/// The routes that a row allows. None for a call that is refused; of a local call, those by which
/// the LWK may pass it on.
#[must_use]
pub const fn of_row(row: &Row) -> Routes {
    let (number, is_local) = (row.number as u32, matches!(row.service, Service::Local));
    if matches!(row.service, Service::Refused(..)) {
        return Routes(0);
    }
    let is_boxed = !matches!(row.by, By::Own);
    let is_copied = marshal::refers(row);
    let is_claimed = !is_local && matches!(row.arguments, [Argument::Descriptor, ..]);
    Routes(0)
        .with(Route::DIRECT, true)
        .with(Route::BOUNCED, bounce::is_among(number))
        .with(Route::COPIED, is_copied)
        .with(Route::BOXED, is_boxed)
        .with(Route::BOXED_COPIED, is_boxed && is_copied)
        .with(Route::POOLED, !is_local && native::may_be_pooled(number, row.by))
        .with(Route::UTILITY, NATIVE[number as usize / 64] >> (number % 64) & 1 != 0)
        .with(Route::CLAIMED, is_claimed)
}

/// Routes of each call, by its number.
static OF_NUMBERS: [Routes; NUMBERS] = {
    let mut all = [Routes(0); NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        if let Some(row) = row(number as u64) {
            all[number] = of_row(row);
        }
        number += 1;
    }
    all
};

/// As [`of_row`], of the row of call `number`; none if there is no such call.
#[must_use]
pub fn of_number(number: u32) -> Routes {
    OF_NUMBERS.get(number as usize).copied().unwrap_or_default()
}

/// The state of the calling thread, as far as the route of its calls depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The caller belongs to a native task: pooled proxies execute its calls, and nothing else
    /// does.
    pub is_packed: bool,
    /// Drivers of the LWK have claimed descriptors of its process.
    pub has_claims: bool,
    /// Arguments of its process' calls are copied.
    pub copies: bool,
    /// Linux has no page tables for the program's memory yet, and need not make any for a few
    /// calls.
    pub bounces: bool,
    /// The request box of the caller's process is open.
    pub has_box: bool,
}

impl Caller {
    /// Removes what has opened `route` to the caller, after that route has turned out not to be
    /// open to its call.
    #[must_use]
    pub const fn without(mut self, route: Route) -> Self {
        match (route.server, route.arguments) {
            (Server::Claimed, _) => self.has_claims = false,
            (_, Arguments::Copied) => self.copies = false,
            (_, Arguments::Bounced) => self.bounces = false,
            (Server::Boxed, _) => self.has_box = false,
            (Server::Direct | Server::Pooled | Server::Utility, _) => {}
        }
        self
    }
}

/// The route of a call, of those that its row allows. A native task's calls have one route; which
/// of them no pooled proxy may execute is decided there, since it depends on arguments, too.
#[must_use]
pub const fn choose(routes: Routes, caller: Caller) -> Route {
    if caller.is_packed {
        return Route::POOLED;
    }
    if caller.has_claims && routes.has(Route::CLAIMED) {
        return Route::CLAIMED;
    }
    if caller.copies && routes.has(Route::COPIED) {
        return if caller.has_box && routes.has(Route::BOXED_COPIED) {
            Route::BOXED_COPIED
        } else {
            Route::COPIED
        };
    }
    if caller.bounces && routes.has(Route::BOUNCED) {
        return Route::BOUNCED;
    }
    if caller.has_box && routes.has(Route::BOXED) { Route::BOXED } else { Route::DIRECT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::{Hook, rows};
    use linux_raw_sys::general::*;

    fn callers() -> impl Iterator<Item = Caller> {
        (0..32u8).map(|bits| Caller {
            is_packed: bits & 1 != 0,
            has_claims: bits & 2 != 0,
            copies: bits & 4 != 0,
            bounces: bits & 8 != 0,
            has_box: bits & 16 != 0,
        })
    }

    fn routes(number: u32) -> Routes {
        of_row(row(number.into()).unwrap())
    }

    #[test]
    fn every_route_has_a_bit_of_its_own() {
        let bits = Route::ALL.iter().fold(0, |bits: u8, route| {
            assert_eq!(bits & route.bit(), 0, "{route:?}");
            bits | route.bit()
        });
        assert_eq!(bits, u8::MAX);
    }

    #[test]
    fn arguments_fit_their_server() {
        for route in Route::ALL {
            let fits = match route.arguments() {
                Arguments::Packed => route.server() == Server::Pooled,
                Arguments::Copied => matches!(route.server(), Server::Direct | Server::Boxed),
                // The page is the own worker's, and its program has no server yet.
                Arguments::Bounced => route.server() == Server::Direct,
                Arguments::Mapped => route.server() != Server::Pooled,
            };
            assert!(fits, "{route:?}");
        }
    }

    #[test]
    fn the_chosen_route_is_one_of_the_rows() {
        for (row, caller) in rows().iter().flat_map(|row| callers().map(move |c| (row, c))) {
            let chosen = choose(of_row(row), caller);
            let is_refused = matches!(row.service, Service::Refused(..));
            match caller.is_packed {
                true => assert_eq!(chosen, Route::POOLED),
                false => assert!(of_row(row).has(chosen) || is_refused, "{} {caller:?}", row.name),
            }
        }
    }

    #[test]
    fn striking_out_routes_ends_with_the_own_worker() {
        for (row, caller) in rows().iter().flat_map(|row| callers().map(move |c| (row, c))) {
            let (mut caller, mut tried) = (caller, 0);
            while !matches!(choose(of_row(row), caller), Route::DIRECT | Route::POOLED) {
                caller = caller.without(choose(of_row(row), caller));
                tried += 1;
                assert!(tried <= 4, "{} {caller:?}", row.name);
            }
        }
    }

    #[test]
    fn routes_of_calls_that_the_documents_name() {
        let all = |number| routes(number).iter().map(|route| (route.server(), route.arguments()));
        assert!(all(__NR_read).eq(Route::ALL.iter().map(|r| (r.server(), r.arguments()))));
        let getuid = routes(__NR_getuid);
        assert!(getuid.has(Route::DIRECT) && !getuid.has(Route::COPIED), "it refers to nothing");
        assert!(!routes(__NR_setuid).has(Route::BOXED), "servers have rights of their own");
        assert!(!routes(__NR_openat).has(Route::UTILITY), "what it opens may be the LWK's");
        let refused = rows().iter().find(|row| matches!(row.service, Service::Refused(..)));
        assert_eq!(of_row(refused.unwrap()), Routes::default());
        assert!(rows().iter().all(|row| of_number(row.number.into()) == of_row(row)));
        assert_eq!(of_number(NUMBERS as u32), Routes::default());
        let local = routes(__NR_nanosleep);
        assert!(local.has(Route::DIRECT) && !local.has(Route::CLAIMED));
        assert!(matches!(row(39).unwrap().service, Service::Local));
        assert!(matches!(row(0).unwrap().service, Service::Delegated(Hook::None)));
    }

    #[test]
    fn a_claim_comes_before_servers_on_linux() {
        let caller = Caller { has_claims: true, has_box: true, copies: true, ..Caller::default() };
        assert_eq!(choose(routes(__NR_read), caller), Route::CLAIMED);
        assert_eq!(choose(routes(__NR_read), caller.without(Route::CLAIMED)), Route::BOXED_COPIED);
        assert_eq!(choose(routes(__NR_openat), caller), Route::BOXED_COPIED);
    }
}
