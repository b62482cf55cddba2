//! A share of requests, such as `0.1%`, without floats.

use std::fmt;
use std::str::FromStr;

/// A share in thousandths of a percent.
///
/// ```
/// use tollgate_replay::Share;
/// let share: Share = "0.1%".parse().unwrap();
/// assert!(!share.is_exceeded_by(1, 1_000) && share.is_exceeded_by(2, 1_000));
/// assert!("0.1".parse::<Share>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u64);

impl Share {
    const ALL: u64 = 100_000;

    /// The share that `part` has in `all`, rounded up, so that none looks smaller than it is.
    pub fn of(part: u64, all: u64) -> Self {
        let share = (u128::from(part) * u128::from(Self::ALL)).div_ceil(u128::from(all.max(1)));
        Self(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// Whether `part` of `all` is more.
    pub fn is_exceeded_by(self, part: u64, all: u64) -> bool {
        u128::from(part) * u128::from(Self::ALL) > u128::from(all) * u128::from(self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:03}", self.0 % 1_000);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{}%", self.0 / 1_000),
            digits => write!(f, "{}.{digits}%", self.0 / 1_000),
        }
    }
}

/// `1%` or `0.125%`.
impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no share; write a percentage from 0% to 100%, such as 0.1%");
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > 3 {
            return Err(wrong());
        }
        let thousandths = format!("{whole}{fraction:0<3}").parse::<u64>().map_err(|_| wrong())?;
        if thousandths > Self::ALL { Err(wrong()) } else { Ok(Self(thousandths)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_nonsense_is_refused() {
        let share = |text: &str| text.parse::<Share>();
        assert_eq!(share("1%"), Ok(Share(1_000)));
        assert_eq!(share("0.125 %"), Ok(Share(125)));
        assert_eq!(share("100%"), Ok(Share(100_000)));
        for text in ["1", "%", "101%", "-1%", "1.%", "0.1234%", "one%", "1,5%"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert!(!Share(1_000).is_exceeded_by(1, 100) && Share(1_000).is_exceeded_by(2, 100));
        assert!(Share(0).is_exceeded_by(1, u64::MAX) && !Share(0).is_exceeded_by(0, 0));
        assert_eq!(
            [Share::of(42, 30_969), Share::of(1, 3), Share::of(0, 0)],
            [Share(136), Share(33_334), Share(0)]
        );
        assert_eq!(
            [Share(125), Share(1_000), Share(100), Share(0)].map(|share| share.to_string()).join(" "),
            "0.125% 1% 0.1% 0%"
        );
    }
}
