//! The accounts of a service: which there are, which of them are open, and which gives its room to another.
//!
//! One is opened when it is asked for, and closed when nobody has asked for a while or another needs its room. What falls due in a
//! closed one opens it again: what it owes to the clock was noted when it was closed. Who does not open is answered for with 503,
//! and the others go on.
//!
//! Locks, in this order: an account's turn (held as long as opening or closing it takes), then its present (a look). The list of
//! accounts and the count of rooms are held for a look too, and nothing is taken under them.

mod moved;
mod place;
mod shut;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use countersign_log::{Clocks, StoreError, store::rocks::Shared};
use countersign_verifier::hash::Hash;

pub use place::{Left, Place, Standing};
use shut::{Shut, untold};

use crate::{
    account::{Account, Explicit, OpenError},
    config,
    data_dir::DataDir,
    error::{Code, Problem},
    state::token::token_hash,
};

/// Who did not open is not tried again for so long, in milliseconds.
const FAILED_MS: u64 = 10_000;

/// What it takes to open an account.
pub struct Opener {
    /// The data directory.
    pub dir: DataDir,
    /// What all stores share.
    pub shared: Shared,
    /// The machine's clocks.
    pub clocks: Arc<dyn Clocks>,
    /// How witnesses are asked.
    pub witnesses: config::Witnesses,
    /// What the operator said on the command line: it holds for each log that this process opens.
    pub explicit: Explicit,
}

/// The accounts of a service.
pub struct Accounts {
    places: RwLock<BTreeMap<String, Arc<Place>>>,
    /// How many are open, or being opened or closed.
    rooms: Mutex<usize>,
    settings: config::Accounts,
    opener: Opener,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Accounts {
    /// The accounts of these names, none of them open.
    #[must_use]
    pub fn new(opener: Opener, settings: config::Accounts, names: &[String]) -> Accounts {
        let place = |name: &String| (name.clone(), Arc::new(Place::new(&opener.dir, name)));
        let places = names.iter().map(place).collect();
        Accounts {
            places: RwLock::new(places),
            rooms: Mutex::new(0),
            settings,
            opener,
        }
    }

    /// Opens as many as may be open, so that whoever reads the ready line need not wait. The others are looked through by
    /// [`Accounts::sweep`].
    ///
    /// # Errors
    /// Which account does not open, if none does.
    pub fn begin(&self) -> Result<(), (String, OpenError)> {
        let (mut first, mut opened) = (None, false);
        for place in self.all().into_iter().take(self.settings.open_max) {
            match self.open_now(&place) {
                Ok(_) => {
                    // As if it had been asked for: it is not closed before anybody could.
                    place.use_at(self.now_ms());
                    opened = true;
                }
                Err(Shut::Failed(error)) => {
                    if self.all().len() > 1 {
                        tracing::error!(account = %place.name, %error, "an account does not open");
                    }
                    first.get_or_insert((place.name.clone(), error));
                }
                Err(Shut::Full | Shut::Failing) => break,
            }
        }
        match first {
            Some(failed) if !opened => Err(failed),
            _ => Ok(()),
        }
    }

    /// The account of this name, opened if it is not.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if it does not open.
    pub fn get(&self, name: &str) -> Result<Arc<Account>, Problem> {
        let place = self.place(name)?;
        self.open(&place)
    }

    /// The account whose log has this origin, opened if it is not.
    ///
    /// # Errors
    /// `Busy` if it does not open.
    pub fn of_origin(&self, origin: &str) -> Result<Option<Arc<Account>>, Problem> {
        let mut all = self.all().into_iter();
        let found = all.find(|place| place.origin == origin);
        found.map(|place| self.open(&place)).transpose()
    }

    /// The account that has made this token, ended ones included, and what it keeps of it.
    ///
    /// # Errors
    /// `Busy` while it cannot be told: the account that might have made it has not been opened yet, or does not open.
    pub fn of_token(&self, text: &str) -> Result<Option<(Arc<Account>, Hash)>, Problem> {
        let mut unknown = false;
        for place in self.all() {
            let hash = token_hash(&place.origin, text);
            match place.has_token(&hash) {
                Some(true) => return self.open(&place).map(|account| Some((account, hash))),
                Some(false) => {}
                None => unknown = true,
            }
        }
        match unknown {
            true => Err(untold()),
            false => Ok(None),
        }
    }

    /// The accounts that have bound something with this SHA-256, ended bindings included: all, or the one that is named.
    ///
    /// # Errors
    /// `NotFound` for a name of none, and `Busy` as in [`Accounts::of_token`].
    pub fn binding(
        &self,
        sha256: &Hash,
        named: Option<&str>,
    ) -> Result<Vec<Arc<Account>>, Problem> {
        let places = match named {
            Some(name) => vec![self.place(name)?],
            None => self.all(),
        };
        let mut found = Vec::new();
        for place in places {
            match place.has_token(sha256) {
                Some(true) => found.push(self.open(&place)?),
                Some(false) => {}
                None => return Err(untold()),
            }
        }
        Ok(found)
    }

    /// What is known of the account of this name without opening it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn place(&self, name: &str) -> Result<Arc<Place>, Problem> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let found = places.get(name).cloned();
        found.ok_or_else(|| Problem::new(Code::NotFound, "no account of this name here"))
    }

    /// All of them, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Place>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.values().cloned().collect()
    }

    /// Those that are open, by name.
    pub fn values(&self) -> impl Iterator<Item = Arc<Account>> + use<> {
        self.all()
            .into_iter()
            .filter_map(|place| place.now().open.clone())
    }

    /// Their names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.all().iter().map(|place| place.name.clone()).collect()
    }

    /// What it takes to open one.
    #[must_use]
    pub fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Takes in an account whose files are there now.
    pub fn add(&self, name: &str) {
        let place = Arc::new(Place::new(&self.opener.dir, name));
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        places.entry(name.to_owned()).or_insert(place);
    }

    /// Puts an account in the place of the one of its name, which the caller has in hand. One of a new name is dropped.
    pub fn replace(&self, account: Account) {
        if let Ok(place) = self.place(&account.name) {
            place.now().open = Some(Arc::new(account));
        }
    }

    /// Takes out of its place an account whose log is closed and did not open again: it is tried anew, as any that does not open.
    pub fn give_up(&self, name: &str) {
        let Ok(place) = self.place(name) else { return };
        let _turn = lock(&place.turn);
        let mut now = place.now();
        if let Some(account) = now.open.take() {
            now.store = account.held_store();
            now.failed_ms = Some(self.now_ms());
            *lock(&self.rooms) -= 1;
        }
    }

    /// Closes what nobody asks for, and opens what has something fall due; ends the process where a folder was moved away. To be called
    /// again and again.
    pub fn sweep(&self) {
        self.end_if_moved();
        let all = self.all();
        // The only one is what the service is there for.
        let idle_ms = match (all.len(), self.settings.idle_s) {
            (0..=1, _) | (_, 0) => u64::MAX,
            (_, idle_s) => idle_s.saturating_mul(1_000),
        };
        for place in all {
            let now_ms = self.now_ms();
            if place.is_due(now_ms) {
                // One that does not open takes nobody's room.
                if place.is_failing() && *lock(&self.rooms) >= self.settings.open_max {
                    continue;
                }
                match self.open_now(&place) {
                    Err(Shut::Failed(error)) => {
                        tracing::error!(account = %place.name, %error, "an account does not open");
                    }
                    Ok(_) | Err(Shut::Full | Shut::Failing) => {}
                }
            } else if now_ms.saturating_sub(place.used_ms()) >= idle_ms {
                self.close(&place);
            }
        }
    }

    /// Takes away, in those that are open, what leaves have erased and is still here.
    pub fn erase_owed(&self) {
        for account in self.values() {
            account.erase_owed();
        }
    }

    /// Takes no more writes in any of them, and finishes those that were taken.
    pub fn end(&self) {
        self.end_if_moved();
        for place in self.all() {
            let _turn = lock(&place.turn);
            let open = place.now().open.clone();
            if let Some(account) = open {
                account.log.close();
            }
        }
    }

    fn open(&self, place: &Place) -> Result<Arc<Account>, Problem> {
        place.use_at(self.now_ms());
        if let Some(open) = place.now().open.clone() {
            return Ok(open);
        }
        // Opening reads a disk and may replay leaves: other requests of this thread go on elsewhere meanwhile.
        tokio::task::block_in_place(|| self.open_now(place)).map_err(|shut| {
            if let Shut::Failed(error) = &shut {
                tracing::error!(account = %place.name, %error, "an account does not open");
            }
            shut.problem()
        })
    }

    fn open_now(&self, place: &Place) -> Result<Arc<Account>, Shut> {
        let _turn = lock(&place.turn);
        let (store, versions) = {
            let now = place.now();
            if let Some(open) = &now.open {
                return Ok(open.clone());
            }
            let since = |at: u64| self.now_ms().saturating_sub(at);
            if now.failed_ms.is_some_and(|at| since(at) < FAILED_MS) {
                return Err(Shut::Failing);
            }
            (now.store.upgrade(), now.versions.clone())
        };
        if !self.take_room() {
            return Err(Shut::Full);
        }
        let opener = &self.opener;
        let settings = (&opener.witnesses, opener.explicit);
        let opened = Account::reopen(
            (&opener.dir, &place.name),
            (store, &opener.shared),
            opener.clocks.clone(),
            settings,
            place.was().as_ref(),
        );
        let mut now = place.now();
        match opened {
            Ok(mut account) => {
                account.versions = versions;
                let account = Arc::new(account);
                now.open = Some(account.clone());
                now.left = None;
                if now.failed_ms.take().is_some() {
                    tracing::info!(account = %place.name, "the account is open again");
                }
                Ok(account)
            }
            Err(error) => {
                *lock(&self.rooms) -= 1;
                // Whoever read there last is just closing it.
                if let OpenError::Store(StoreError::InUse(_)) = error {
                    return Err(Shut::Failing);
                }
                now.failed_ms = Some(self.now_ms());
                Err(Shut::Failed(error))
            }
        }
    }

    /// A room for one more; the one that has not been asked for the longest gives up its own, if it can.
    fn take_room(&self) -> bool {
        loop {
            {
                let mut rooms = lock(&self.rooms);
                if *rooms < self.settings.open_max {
                    *rooms += 1;
                    return true;
                }
            }
            let mut all = self.all();
            all.sort_by_key(|place| place.used_ms());
            if !all.iter().any(|place| self.close(place)) {
                return false;
            }
        }
    }

    /// Closes an account that nobody has in hand and that owes nothing at this moment; whether it did.
    fn close(&self, place: &Place) -> bool {
        let Ok(_turn) = place.turn.try_lock() else {
            return false;
        };
        let Some(account) = place.take_if_idle(self.now_ms(), &self.opener.witnesses) else {
            return false;
        };
        account.log.close();
        // Whatever was in the queue is in the log by now.
        let left = Left::of(&account, self.now_ms(), &self.opener.witnesses);
        {
            let mut now = place.now();
            now.left = Some(left);
            now.store = account.held_store();
        }
        drop(account);
        *lock(&self.rooms) -= 1;
        tracing::debug!(account = %place.name, "closed: nobody asks for it");
        true
    }

    /// Milliseconds that never go back.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.opener.clocks.read().boot_ns / 1_000_000).unwrap_or(0)
    }
}
