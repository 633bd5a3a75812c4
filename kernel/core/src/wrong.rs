//! Steps that an exploration has taken wrongly, to show that it finds that.

/// Whether the exploration of the calling module, its `explore`, has this step taken wrongly.
macro_rules! wrong {
    ($mutant:ident) => {{
        #[cfg(test)]
        let is_wrong = explore::is(explore::Mutant::$mutant);
        #[cfg(not(test))]
        let is_wrong = false;
        is_wrong
    }};
}
