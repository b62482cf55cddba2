//! What a caller asks for its request by.

use std::fmt;
use std::str::FromStr;

/// Whoever has it may read the answer, so it is 128 random bits.
///
/// ```
/// use tollgate_defer::DeferredId;
/// let id = DeferredId::random();
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeferredId([u8; 16]);

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 digits of 0-9 and a-f")]
pub struct DeferredIdError;

impl DeferredId {
    /// One that nobody guesses.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("a system without randomness cannot run a server");
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for DeferredId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Logs show the beginning alone, since whoever has all of it may read the answer.
impl fmt::Debug for DeferredId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, ..] = self.0;
        write!(f, "{first:02x}{second:02x}{third:02x}…")
    }
}

impl FromStr for DeferredId {
    type Err = DeferredIdError;

    fn from_str(text: &str) -> Result<Self, DeferredIdError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(DeferredIdError);
        }
        u128::from_str_radix(text, 16).map(|number| Self(number.to_be_bytes())).map_err(|_| DeferredIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_out_is_an_id() {
        let id = DeferredId::random();
        assert_ne!(id, DeferredId::random());
        assert!(!format!("{id:?}").contains(&id.to_string()), "a log does not give it away");
        let text = id.to_string();
        for wrong in ["", "x", &text[1..], &format!("{text}0"), &text.to_uppercase().replace('0', "A"), "+1"]
        {
            assert_eq!(wrong.parse::<DeferredId>(), Err(DeferredIdError), "{wrong}");
        }
    }
}
