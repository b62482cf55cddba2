//! Windows of flow control (RFC 9113, 5.2 and 6.9).

/// No window is larger.
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;
/// The window of every connection until it is enlarged, and of streams until settings say otherwise.
pub(crate) const WINDOW_DEFAULT: u32 = 65_535;

/// What the other end may still send, of one stream or of all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveWindow {
    size: u32,
    left: u32,
    /// Taken and used up, but not yet given back.
    used: u32,
}

impl ReceiveWindow {
    pub(crate) const fn new(size: u32) -> Self {
        Self { size, left: size, used: 0 }
    }

    /// The window of a stream whose caller may not know our settings yet, and goes by what everybody has.
    pub(crate) const fn before_settings(size: u32) -> Self {
        let left = if size > WINDOW_DEFAULT { size } else { WINDOW_DEFAULT };
        Self { size, left, used: 0 }
    }

    /// Takes a frame's worth; none if it is more than was allowed.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(u32::try_from(bytes).ok()?)?;
        Some(())
    }

    /// So many bytes need no room any more; what to give back, once it is worth a frame.
    pub(crate) fn give_back(&mut self, bytes: usize) -> Option<u32> {
        self.used = self.used.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if self.used < self.size / 2 || self.used == 0 {
            return None;
        }
        self.left = self.left.saturating_add(self.used);
        Some(std::mem::take(&mut self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_given_back_by_halves_and_never_overdrawn() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.take(60).is_some());
        assert!(window.take(41).is_none());
        assert_eq!(window.give_back(49), None);
        assert_eq!(window.give_back(1), Some(50));
        assert!(window.take(90).is_some());
        assert!(window.take(1).is_none());
    }
}
