//! How long a connection of RESP stays.
//!
//! A client may keep a connection for as long as it likes and say nothing. It
//! goes if a command does not come in whole, if its password does not come, or
//! if it is silent where others need the room.

use crate::bounds::{BODY_WAIT_MAX, LOOK_EVERY, OPENING_MAX};

/// What is seen of a connection when somebody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sight {
    /// Commands answered so far.
    pub(super) commands: u64,
    /// Bytes read so far.
    pub(super) bytes: u64,
    /// There is the beginning of a command.
    pub(super) is_partial: bool,
    /// There is a password, and it has not been shown.
    pub(super) is_stranger: bool,
    /// There are so many connections that silent ones should go.
    pub(super) is_crowded: bool,
}

/// Why a connection is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Cut {
    #[error("ERR Protocol error: the command did not arrive within {} s; send it faster", BODY_WAIT_MAX.as_secs())]
    Slow,
    #[error("NOAUTH no password within {} s; send AUTH password", OPENING_MAX.as_secs())]
    Stranger,
    #[error("ERR too many connections; come back when you have a command")]
    Silent,
}

/// What was seen at the last looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    last: Sight,
    looks: u32,
    /// For how many looks the same command has been coming in.
    waits: u32,
}

impl Looks {
    /// Looks, [`LOOK_EVERY`] after the last time.
    pub(super) fn look(&mut self, sight: Sight) -> Option<Cut> {
        let last = std::mem::replace(&mut self.last, sight);
        let is_same = last.is_partial && sight.is_partial && last.commands == sight.commands;
        self.looks += 1;
        self.waits = if is_same { self.waits + 1 } else { 0 };
        if LOOK_EVERY * self.waits >= BODY_WAIT_MAX {
            Some(Cut::Slow)
        } else if sight.is_stranger && LOOK_EVERY * self.looks >= OPENING_MAX {
            Some(Cut::Stranger)
        } else if sight.is_crowded && sight.bytes == last.bytes {
            Some(Cut::Silent)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Sight =
        Sight { commands: 7, bytes: 70, is_partial: false, is_stranger: false, is_crowded: false };

    #[test]
    fn who_is_silent_may_stay_until_others_need_the_room() {
        let mut looks = Looks::default();
        for _ in 0..1_000 {
            assert_eq!(looks.look(QUIET), None);
        }
        assert_eq!(looks.look(Sight { is_crowded: true, ..QUIET }), Some(Cut::Silent));
        assert_eq!(looks.look(Sight { is_crowded: true, bytes: 71, ..QUIET }), None);
    }

    #[test]
    fn a_command_must_come_in_whole() {
        let mut looks = Looks::default();
        let slow = |bytes| Sight { is_partial: true, bytes, ..QUIET };
        assert_eq!(looks.look(slow(71)), None);
        assert_eq!(looks.look(slow(72)), None);
        assert_eq!(looks.look(slow(73)), Some(Cut::Slow));
    }

    #[test]
    fn a_caller_between_two_commands_is_not_slow() {
        let mut looks = Looks::default();
        for commands in 0..100 {
            assert_eq!(looks.look(Sight { commands, is_partial: true, ..QUIET }), None);
        }
    }

    #[test]
    fn a_stranger_has_ten_seconds() {
        let mut looks = Looks::default();
        let stranger = Sight { is_stranger: true, ..QUIET };
        assert_eq!(looks.look(stranger), None);
        assert_eq!(looks.look(stranger), Some(Cut::Stranger));
    }
}
