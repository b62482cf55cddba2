//! How much of an address is the key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::Error;

/// How many bits of an address are the key. A home or a server gets a /64 of
/// IPv6 or more, so that limiting single addresses would limit nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPrefixes {
    v4: u8,
    v6: u8,
}

impl Default for AddressPrefixes {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

impl AddressPrefixes {
    /// So many bits of IPv4 and of IPv6.
    ///
    /// # Errors
    /// If an address has fewer.
    pub const fn new(v4: u8, v6: u8) -> Result<Self, Error> {
        if v4 > 32 {
            return Err(Error::Prefix { family: "IPv4", bits: v4, bits_max: 32 });
        }
        if v6 > 128 {
            return Err(Error::Prefix { family: "IPv6", bits: v6, bits_max: 128 });
        }
        Ok(Self { v4, v6 })
    }

    /// The first address of its network: all other bits are zero.
    pub fn network(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }

    /// The key of an address: `203.0.113.9` where all bits count, and
    /// `2001:db8::/64` where they do not.
    pub fn shown(&self, address: IpAddr) -> String {
        let network = self.network(address);
        let (bits, bits_max) = if network.is_ipv4() { (self.v4, 32) } else { (self.v6, 128) };
        if bits == bits_max { network.to_string() } else { format!("{network}/{bits}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_cut_to_its_prefix() {
        for (v4, v6, address, shown) in [
            (32, 64, "203.0.113.9", "203.0.113.9"),
            (0, 64, "203.0.113.9", "0.0.0.0/0"),
            (31, 64, "203.0.113.9", "203.0.113.8/31"),
            (32, 128, "2001:db8::1", "2001:db8::1"),
            (32, 0, "2001:db8::1", "::/0"),
            (32, 56, "2001:db8:0:1ff::1", "2001:db8:0:100::/56"),
            (32, 64, "::ffff:203.0.113.9", "203.0.113.9"),
            (24, 64, "::ffff:203.0.113.9", "203.0.113.0/24"),
        ] {
            let prefixes = AddressPrefixes::new(v4, v6).unwrap();
            assert_eq!(prefixes.shown(address.parse().unwrap()), shown);
        }
    }

    #[test]
    fn no_address_has_more_bits() {
        let error = AddressPrefixes::new(33, 64).unwrap_err().to_string();
        assert_eq!(error, "an IPv4 address has 32 bits and not 33; write 0 to 32");
        assert!(AddressPrefixes::new(32, 129).is_err());
    }
}
