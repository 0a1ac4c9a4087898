//! Quantities in few characters, for tables. JSON keeps the exact numbers.

use crate::{
    observed::{Observed, Reason},
    units::{Bytes, Micros, PerSecond, Percent},
};

/// A value; `none` or `-` where there is none, and `?` where it is unknown. The lines below the
/// table say why.
pub fn or_unknown<T>(value: &Observed<T>, show: impl FnOnce(&T) -> String) -> String {
    match value {
        Observed::Known(value) => show(value),
        Observed::Unknown(Reason::NoLimitSet) => "none".to_owned(),
        Observed::Unknown(reason) if reason.is_absence() => "-".to_owned(),
        Observed::Unknown(_) => "?".to_owned(),
    }
}

/// Bytes with a binary unit: `52.4M` is 52.4 MiB, as in `ps` and `top`.
pub fn bytes(value: Bytes) -> String {
    scaled(value.0 as f64, 1024.0, &["", "K", "M", "G", "T", "P"])
}

/// A rate of bytes, per second.
pub fn byte_rate(value: PerSecond) -> String {
    scaled(value.get(), 1024.0, &["", "K", "M", "G", "T", "P"])
}

/// A rate of bytes that may be negative, per second.
pub fn signed_byte_rate(per_s: i64) -> String {
    let amount = bytes(Bytes(per_s.unsigned_abs()));
    if per_s < 0 { format!("-{amount}") } else { amount }
}

/// A rate of bytes with its unit, for a sentence.
pub fn byte_rate_with_unit(value: PerSecond) -> String {
    scaled(value.get(), 1024.0, &[" B/s", " KiB/s", " MiB/s", " GiB/s", " TiB/s", " PiB/s"])
}

/// A rate of anything else, per second, in thousands.
pub fn rate(value: PerSecond) -> String {
    scaled(value.get(), 1000.0, &["", "k", "M", "G"])
}

/// A time in the largest unit of which it has one: `310ns`, `4.5us`, `12.0ms`, `2.9s`.
pub fn micros(value: Micros) -> String {
    let us = value.get();
    match us {
        ..1.0 => format!("{:.0}ns", us * 1e3),
        ..1e3 => format!("{us:.1}us"),
        ..1e6 => format!("{:.1}ms", us / 1e3),
        _ => format!("{:.1}s", us / 1e6),
    }
}

/// A percentage with one decimal.
pub fn percent(value: Percent) -> String {
    format!("{:.1}", value.get())
}

/// An age in its two largest units: `3d4h`, `12m30s`.
pub fn age(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes}m"),
        (_, _, _) => format!("{days}d{hours}h"),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter().peekable();
    let mut unit = units.next().copied().unwrap_or_default();
    let smallest = unit;
    while value >= step && units.peek().is_some() {
        value /= step;
        unit = units.next().copied().unwrap_or_default();
    }
    if unit == smallest && value.fract() == 0.0 {
        format!("{value:.0}{unit}")
    } else if value < 100.0 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn quantities_keep_their_magnitude() {
        let second = Duration::from_secs(1);
        let cases = [
            ("zero", bytes(Bytes(0)), "0"),
            ("bytes", bytes(Bytes(512)), "512"),
            ("mebibytes", bytes(Bytes(52_428_800)), "50.0M"),
            ("hundreds", bytes(Bytes(209_715_200)), "200M"),
            ("largest", bytes(Bytes(u64::MAX)), "16384P"),
            (
                "with its unit",
                byte_rate_with_unit(PerSecond::over(25_062_400, second).unwrap()),
                "23.9 MiB/s",
            ),
            ("a rate that falls", signed_byte_rate(-52_428_800), "-50.0M"),
            ("less than a microsecond", micros(Micros::from_ns(310)), "310ns"),
            ("milliseconds", micros(Micros::from_ns(12_040_000)), "12.0ms"),
            ("seconds of waiting", micros(Micros::from_ns(2_930_000_000)), "2.9s"),
            ("slow rate", rate(PerSecond::over(1, Duration::from_secs(3)).unwrap()), "0.3"),
            ("fast rate", rate(PerSecond::over(4_312, second).unwrap()), "4.3k"),
            ("seconds", age(59), "59s"),
            ("minutes", age(750), "12m30s"),
            ("hours", age(7_260), "2h1m"),
            ("days", age(1_814_400), "21d0h"),
        ];
        for (name, found, want) in cases {
            assert_eq!(found, want, "{name}");
        }
    }
}
