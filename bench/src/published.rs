//! The published figures that Hanare is measured against, by their ids (F1 to F11), and which of
//! ours answer them.

/// A published figure.
pub struct Published {
    /// Id of the figure: F1 to F11.
    pub id: &'static str,
    /// Subject of the figure, in a few words.
    pub what: &'static str,
    /// Groups and figures of this command that answer the published one.
    pub by: &'static [&'static str],
    /// Document or test that answers it elsewhere, or why nothing does.
    pub elsewhere: Option<&'static str>,
}

/// All published figures.
pub const ALL: &[Published] = &[
    Published {
        id: "F1",
        what: "null delegated call",
        by: &["call.delegated", "call.after-20us", "call.after-1ms", "call.doorbell", "packed"],
        elsewhere: Some("step by step it is counted: bench/instructions --steps, --packed"),
    },
    Published {
        id: "F2",
        what: "read of a file in memory, 1 KiB to 10 MiB",
        by: &[
            "read.1k",
            "read.64k",
            "read.1m",
            "read.10m",
            "read.1k-first",
            "read.64k-first",
            "read.1m-first",
            "read.10m-first",
            "transfer",
        ],
        elsewhere: None,
    },
    Published {
        id: "F3",
        what: "1 MB read in 1,024 calls",
        by: &["read.1m-by-1k", "delegation.device"],
        elsewhere: None,
    },
    Published {
        id: "F4",
        what: "cache lines of a delegated call",
        by: &[],
        elsewhere: Some("counted by a plugin of QEMU's: bench/instructions --lines"),
    },
    Published { id: "F5", what: "request box", by: &["box"], elsewhere: None },
    Published {
        id: "F6",
        what: "calls without a trap",
        by: &["posted", "posted-lengths", "posted-functions", "checkpoints", "servers"],
        elsewhere: Some("by side they are counted: bench/instructions --posted"),
    },
    Published {
        id: "F7",
        what: "noise",
        by: &["noise"],
        elsewhere: Some("length by length: hanare noise"),
    },
    Published { id: "F8", what: "boot", by: &["boot"], elsewhere: None },
    Published {
        id: "F9",
        what: "applications on 8,192 nodes",
        by: &[],
        elsewhere: Some("needs the applications: not measured by this command"),
    },
    Published {
        id: "F10",
        what: "operations of the kernel",
        by: &["call.local", "mm", "signal", "thread", "process"],
        elsewhere: Some("its targets are about counts: bench/operations"),
    },
    Published {
        id: "F11",
        what: "growth",
        by: &[],
        elsewhere: Some("counted by a plugin of QEMU's: bench/operations --growth"),
    },
];

/// The published figure with that id, in capitals or not.
pub fn find(id: &str) -> Option<&'static Published> {
    ALL.iter().find(|published| published.id.eq_ignore_ascii_case(id))
}

/// Names of groups and figures, in place of ids of published ones.
pub fn resolve(names: &[String]) -> Vec<String> {
    let ours = |name: &String| match find(name) {
        Some(published) => published.by.iter().map(|&name| name.into()).collect(),
        None => vec![name.clone()],
    };
    names.iter().flat_map(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stands_for_figures_or_says_where_they_are() {
        let names = ["f3", "call.local"].map(String::from);
        assert_eq!(resolve(&names), ["read.1m-by-1k", "delegation.device", "call.local"]);
        assert_eq!(resolve(&["F4".into()]), [""; 0]);
        for published in ALL {
            assert!(!published.by.is_empty() || published.elsewhere.is_some(), "{}", published.id);
        }
        assert!(find("F12").is_none());
    }
}
