//! Quarantine of frames that were given up while Linux holds them, or may hold them: the states of
//! a run, and the rounds in which Linux is asked.
//!
//! A run is *unasked*, *asked about*, or *held* as Linux has answered. A held run may be free a
//! moment later, without a notification. Therefore, where memory is short and the last answers are
//! old, all are asked about anew, in a [`Round`]. Each user has an [`Inquiry`] of its own, and so
//! has the kernel for the frames that it gave up itself.
//!
//! The runs are in two lists. Which of them has the unasked ones changes when held ones are asked
//! about anew, so that no run is moved then.

/// How long answers count, ns: what Linux lets go of later is found by a later round.
pub const FRESH_NS: u64 = 100_000_000;
/// How long a round may take, ns. Others may give more up all the time: a thread that needs memory
/// does not wait for that.
pub const ROUND_NS: u64 = 2_000_000_000;
/// How long Linux is left alone after it has not answered, ns.
pub const SILENCE_NS: u64 = 1_000_000_000;

/// State of knowledge about a run that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Linux may hold the frame.
    Unasked,
    /// Linux has just said that it holds the frame.
    Held,
}

/// Answer of Linux about pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pages are free.
    Free,
    /// Linux holds the pages.
    Held,
    /// Linux has not answered, or holds one of the pages: they are to be asked about in parts.
    Unclear,
}

/// Next action about a user's frames, before a decision that depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// The question is settled: Linux has said of all pages that it holds them, or does not answer.
    Settled,
    /// The answer to what another thread asks is to come.
    Await,
    /// Linux is to be asked.
    Ask,
}

/// Pages that one user has in quarantine, by what is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inquiry {
    /// Pages of each of the two lists.
    pages: [u64; 2],
    /// Index of the list with the pages that Linux has not been asked about.
    unasked: usize,
    asking: u64,
    /// Time when the held pages were asked about anew.
    began_ns: u64,
}

impl Inquiry {
    /// An inquiry without pages.
    pub const NOTHING: Self = Self { pages: [0; 2], unasked: 0, asking: 0, began_ns: 0 };

    /// Pages that Linux is still to be asked about.
    #[must_use]
    pub const fn unasked(&self) -> u64 {
        self.pages[self.unasked]
    }

    /// Pages that Linux held when it was asked last.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.pages[1 - self.unasked]
    }

    /// All pages in quarantine.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.pages[0] + self.pages[1] + self.asking
    }

    /// Index of the list with the pages that Linux has not been asked about.
    #[must_use]
    pub const fn unasked_list(&self) -> usize {
        self.unasked
    }

    /// So many pages come into quarantine; gives their list.
    pub fn add(&mut self, pages: u64, known: Known) -> usize {
        let list = match known {
            Known::Unasked => self.unasked,
            Known::Held => 1 - self.unasked,
        };
        self.pages[list] += pages;
        list
    }

    /// So many pages were taken out of the list of the unasked ones, and Linux is asked about them.
    pub fn take(&mut self, pages: u64) {
        self.pages[self.unasked] -= pages;
        self.asking += pages;
    }

    /// Linux has answered for pages that were [taken](Self::take), or has not; gives the list that
    /// they go to.
    pub fn answered(&mut self, pages: u64, answer: Answer) -> Option<usize> {
        self.asking -= pages;
        match answer {
            Answer::Free => None,
            Answer::Held => Some(self.add(pages, Known::Held)),
            Answer::Unclear => Some(self.add(pages, Known::Unasked)),
        }
    }

    /// The next action if only answers after `since_ns` count. After [`Want::Ask`] the list of the
    /// unasked runs has some.
    pub fn want(&mut self, since_ns: u64, now_ns: u64) -> Want {
        match (self.unasked(), self.asking) {
            (1.., _) => Want::Ask,
            (0, 1..) => Want::Await,
            (0, 0) if self.held() == 0 || self.began_ns >= since_ns => Want::Settled,
            (0, 0) => {
                (self.unasked, self.began_ns) = (1 - self.unasked, now_ns);
                Want::Ask
            }
        }
    }

    /// Key of the inquiry: equal for inquiries that go on alike.
    #[cfg(test)]
    pub(crate) fn key(&self, now_ns: u64) -> impl core::hash::Hash + Eq + use<> {
        let age = now_ns.saturating_sub(self.began_ns).min(ROUND_NS + FRESH_NS);
        (self.unasked(), self.held(), self.asking, age)
    }
}

/// A question about all that some have in quarantine. It begins when a thread needs memory, and
/// ends when Linux has answered for each page. Then no other one is begun for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Round {
    /// `None`: there was none.
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
    looked_ns: u64,
}

impl Round {
    /// No round.
    pub const NONE: Self = Self { began_ns: None, ended_ns: None, looked_ns: 0 };

    /// Answers count that came after the time which this gives. One in which Linux has not
    /// answered, and so is left alone until `silent_until_ns`, begins anew, and so does one that no
    /// thread has continued.
    pub fn since(&mut self, now_ns: u64, silent_until_ns: u64) -> u64 {
        let is_past = |at: u64, ns: u64| now_ns.saturating_sub(at) >= ns;
        let is_over = match self.ended_ns {
            Some(ended) => is_past(ended, FRESH_NS),
            None => is_past(self.looked_ns, ROUND_NS),
        };
        let began = self.began_ns.filter(|&began| !is_over && began >= silent_until_ns);
        *self = Self {
            began_ns: Some(began.unwrap_or(now_ns)),
            ended_ns: self.ended_ns.filter(|_| began.is_some()),
            looked_ns: now_ns,
        };
        began.unwrap_or(now_ns)
    }

    /// The action of the whole round, if `want` is the next one about the frames of all users in
    /// it.
    pub fn judge(&mut self, want: Want, now_ns: u64) -> Want {
        let is_late = self.began_ns.is_some_and(|began| now_ns.saturating_sub(began) > ROUND_NS);
        if want != Want::Settled && !is_late {
            return want;
        }
        self.ended_ns.get_or_insert(now_ns);
        Want::Settled
    }

    /// Forgets the round: answers before no longer count.
    pub fn doubt(&mut self) {
        *self = Self::NONE;
    }

    /// Key of the round: equal for rounds that go on alike.
    #[cfg(test)]
    pub(crate) fn key(&self, now_ns: u64) -> impl core::hash::Hash + Eq + use<> {
        let age = |at: Option<u64>, most: u64| at.map(|at| now_ns.saturating_sub(at).min(most));
        let looked = age(Some(self.looked_ns), ROUND_NS);
        (age(self.began_ns, ROUND_NS + FRESH_NS), age(self.ended_ns, FRESH_NS), looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An inquiry that was answered at a time: two pages are held.
    fn settled() -> Inquiry {
        let mut frames = Inquiry::default();
        frames.add(5, Known::Unasked);
        assert_eq!(frames.want(0, 7), Want::Ask);
        frames.take(5);
        assert_eq!(frames.want(0, 7), Want::Await);
        assert_eq!(frames.answered(3, Answer::Free), None);
        assert_eq!(frames.answered(2, Answer::Held), Some(1));
        assert_eq!((frames.unasked(), frames.held(), frames.all()), (0, 2, 2));
        frames
    }

    #[test]
    fn old_answers_do_not_count() {
        let mut frames = settled();
        assert_eq!(frames.want(0, 8), Want::Settled);
        assert_eq!(frames.want(5, 8), Want::Ask);
        assert_eq!((frames.unasked(), frames.held(), frames.unasked_list()), (2, 0, 1));
        frames.take(2);
        frames.answered(2, Answer::Held);
        assert_eq!((frames.want(5, 9), frames.want(9, 9)), (Want::Settled, Want::Ask));
    }

    #[test]
    fn what_comes_later_is_asked_about_alone() {
        let mut frames = settled();
        assert_eq!(frames.add(1, Known::Held), 1);
        assert_eq!(frames.want(0, 8), Want::Settled);
        assert_eq!(frames.add(4, Known::Unasked), 0);
        assert_eq!((frames.want(0, 8), frames.unasked(), frames.held()), (Want::Ask, 4, 3));
        frames.take(4);
        assert_eq!(frames.answered(4, Answer::Unclear), Some(0));
        assert_eq!((frames.want(0, 8), frames.unasked()), (Want::Ask, 4));
    }

    #[test]
    fn a_round_counts_for_a_while() {
        let mut round = Round::NONE;
        assert_eq!(round.since(10, 0), 10);
        assert_eq!(round.judge(Want::Ask, 20), Want::Ask);
        assert_eq!((round.judge(Want::Settled, 30), round.since(40, 0)), (Want::Settled, 10));
        assert_eq!(round.judge(Want::Ask, 40), Want::Ask, "of what came later");
        assert_eq!(round.since(29 + FRESH_NS, 0), 10);
        assert_eq!(round.since(30 + FRESH_NS, 0), 30 + FRESH_NS);
        round.doubt();
        assert_eq!(round.since(99 + FRESH_NS, 0), 99 + FRESH_NS);
    }

    #[test]
    fn a_round_begins_anew_that_was_not_answered_or_gone_on_with() {
        let mut round = Round::NONE;
        assert_eq!((round.since(10, 0), round.since(20, 0)), (10, 10));
        assert_eq!((round.since(30, 25), round.since(40, 25)), (30, 30));
        assert_eq!(round.since(40 + ROUND_NS, 25), 40 + ROUND_NS);
    }

    #[test]
    fn a_round_that_does_not_end_is_over_after_a_while() {
        let mut round = Round::NONE;
        let ends = (0..100).filter(|i| {
            let now_ns = i * FRESH_NS / 2;
            round.since(now_ns, 0);
            round.judge(Want::Ask, now_ns) == Want::Settled
        });
        assert!((2..10).contains(&ends.count()));
    }

    #[test]
    fn nothing_is_never_asked_about() {
        assert_eq!(Inquiry::default().want(u64::MAX, u64::MAX), Want::Settled);
        assert_eq!(Inquiry::default(), Inquiry::NOTHING);
    }
}
