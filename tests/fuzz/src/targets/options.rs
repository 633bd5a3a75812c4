//! Boot options, and the limits of users among them.

use hanare_core::options::Options;
use hanare_core::userlimits::{Amount, UserLimits};

use crate::target::Target;

pub const TARGET: Target = Target { name: "options", check, size_max: 256, seeds };

fn seeds() -> Vec<Vec<u8>> {
    [
        "",
        "spin_us=0 hold_ms=40 log=debug",
        "exec=local exec=seen log=info",
        "mitigations=off pti=on",
        "mitigations=auto pti=auto pti=off",
        "user_limits=processes=100,kernel-memory=512M,memory=25%",
        "user_limits=none\nuser_limits=processes=unlimited,memory=unlimited",
        "user_limits=memory=16T,kernel-memory=4096K",
        "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Some(limits) = UserLimits::parse(text) {
        let written = limits_as_text(&limits);
        assert_eq!(UserLimits::parse(&written), Some(limits), "{written}");
        for amount in [limits.kernel_memory, limits.memory] {
            bounded(amount);
        }
        for (_, value) in text.split(',').filter_map(|word| word.split_once('=')) {
            let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'%');
            assert!(plain && !value.is_empty(), "{value}");
        }
    }
    match Options::parse(text) {
        Err(refused) => {
            let said = refused.to_string();
            let word = text.split_ascii_whitespace().find(|word| Options::parse(word).is_err());
            assert!(
                word.is_some_and(|word| said.starts_with(&format!("'{word}' is no boot option")))
            );
        }
        Ok(options) => {
            let written = as_text(&options);
            assert_eq!(Options::parse(&written), Ok(options), "{written}");
            assert_eq!(
                Options::parse(&format!("{text} {written}")),
                Ok(options),
                "the last counts"
            );
            for word in text.split_ascii_whitespace() {
                assert!(Options::parse(word).is_ok(), "{word}");
                numbers_are_digits(word);
            }
        }
    }
}

/// A sign, for instance, is none.
fn numbers_are_digits(word: &str) {
    if let Some(number) = ["spin_us=", "hold_ms="].iter().find_map(|key| word.strip_prefix(key)) {
        assert!(number.bytes().all(|byte| byte.is_ascii_digit()), "{word}");
        assert!(number.parse::<u64>().is_ok_and(|number| number <= 60_000_000), "{word}");
    }
}

fn bounded(amount: Amount) {
    for total in [0, 99, 1 << 30, u64::MAX] {
        let bytes = amount.bytes_of(total);
        match amount {
            Amount::Percent(percent) => assert!(percent <= 100 && bytes <= total),
            Amount::Bytes(wanted) => assert_eq!(bytes, wanted),
            Amount::Unlimited => assert_eq!(bytes, u64::MAX),
        }
    }
}

fn as_text(options: &Options) -> String {
    let one_of = |first, word, other| if first { word } else { other };
    format!(
        "log={} exec={} spin_us={} hold_ms={} mitigations={} pti={} user_limits={}",
        one_of(options.log_debug, "debug", "info"),
        one_of(options.exec_seen, "seen", "local"),
        options.spin_us,
        options.hold_ms,
        one_of(options.mitigations.off, "off", "auto"),
        options.mitigations.isolation.map_or("auto", |on| one_of(on, "on", "off")),
        limits_as_text(&options.user_limits),
    )
}

fn limits_as_text(limits: &UserLimits) -> String {
    let amount = |amount: Amount| match amount {
        Amount::Unlimited => "unlimited".into(),
        Amount::Bytes(bytes) if bytes > 0 && bytes.is_multiple_of(1 << 20) => {
            format!("{}M", bytes >> 20)
        }
        Amount::Bytes(bytes) => bytes.to_string(),
        Amount::Percent(percent) => format!("{percent}%"),
    };
    let processes = match limits.processes {
        u64::MAX => "unlimited".into(),
        processes => processes.to_string(),
    };
    format!(
        "processes={processes},kernel-memory={},memory={}",
        amount(limits.kernel_memory),
        amount(limits.memory)
    )
}
