//! How many connections one address has, so that one client alone cannot take all places.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections of one address at once, of the 1,024 of a witness: a log asks by one or two, a peer by four.
pub const EACH_MAX: usize = 64;

/// The connections of each address. It never has more rows than there are places.
pub struct Crowd {
    /// Those of proxies in front of the witness are not counted: each is many clients, and it counts them itself.
    proxies: Vec<IpAddr>,
    each_max: usize,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that was let in, counted until this is dropped.
pub struct Guest(Option<(Arc<Crowd>, IpAddr)>);

impl Guest {
    /// One that nobody counts.
    #[must_use]
    pub fn uncounted() -> Guest {
        Guest(None)
    }
}

impl Crowd {
    /// Nobody yet; of each address up to `each_max`.
    #[must_use]
    pub fn new(proxies: &[IpAddr], each_max: usize) -> Arc<Crowd> {
        Arc::new(Crowd {
            proxies: proxies.iter().map(IpAddr::to_canonical).collect(),
            each_max,
            counts: Mutex::default(),
        })
    }

    /// Lets a connection in, unless its address has too many.
    #[must_use]
    pub fn enter(self: &Arc<Crowd>, address: IpAddr) -> Option<Guest> {
        let address = address.to_canonical();
        // Whoever is on this machine has other ways to be in its way; and proxies are there.
        if address.is_loopback() || self.proxies.contains(&address) {
            return Some(Guest::uncounted());
        }
        let client = client(address);
        let mut counts = self.counts();
        let count = counts.entry(client).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(Guest(Some((self.clone(), client))))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some((crowd, client)) = &self.0 else {
            return;
        };
        let mut counts = crowd.counts();
        if let Some(count) = counts.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(client);
            }
        }
    }
}

/// What one client has for sure: an address of IPv4, or the 64 bits of a network of IPv6, of which it may have all the rest.
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_address_so_many_and_of_others_all_the_same() {
        let proxy: IpAddr = "192.0.2.99".parse().unwrap();
        let crowd = Crowd::new(&[proxy], 2);
        let enter = |address: &str| crowd.enter(address.parse().unwrap());
        let held = [enter("192.0.2.1"), enter("::ffff:192.0.2.1")];
        assert!(held.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none(), "however it is written");
        assert!(enter("192.0.2.2").is_some());
        let network = [enter("2001:db8::1"), enter("2001:db8::ffff:2")];
        assert!(network.iter().all(Option::is_some) && enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::1").is_some(), "another network");
        for near in ["127.0.0.1", "::1", "192.0.2.99", "::ffff:192.0.2.99"] {
            let many: Vec<_> = (0..9).map(|_| enter(near)).collect();
            assert!(many.iter().all(Option::is_some), "{near}");
        }
        drop(held);
        assert!(enter("192.0.2.1").is_some());
        drop(network);
        assert!(crowd.counts().is_empty(), "nothing stays");
    }
}
