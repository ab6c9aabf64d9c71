//! What there is to do about faults that a repair does not mend.

/// A way out. Each stands for a kind of fault that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// A file of the account is missing, or another one's.
    Files,
    /// The mark is missing or damaged, or somebody emptied it.
    Mark,
    /// The store ends before something that had left the process.
    End,
    /// Leaves, or rows that do not follow from them, are missing or changed; or there is no opening the database.
    Rows,
    /// A body is not what was kept, or was erased.
    Bodies,
    /// The service holds another state than the leaves make.
    Live,
    /// The leaves are those that were committed, and say what they must not.
    Said,
}

impl Way {
    /// In plain words, with the page that says more.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Way::Files => {
                "put back from your copy whichever of the account's files is missing or another one: no other will do, and none is made \
                 (docs/operate/incidents.md, \"A key is missing\")"
            }
            Way::Mark => {
                "put `published` back from your newest copy (docs/operate/incidents.md, \"The guard refuses\")"
            }
            Way::End => {
                "leaves are missing at the end: bring them back (`countersign recover`), or put back a copy that has them \
                 (docs/operate/disaster.md)"
            }
            Way::Rows => {
                "the database is damaged: put back a copy that is whole; or move db/ away, which is never written over, and bring all \
                 leaves back (`countersign recover`: docs/operate/disaster.md)"
            }
            Way::Bodies => {
                "put a damaged body back from a backup, under blobs/; one that a leaf has erased goes when the account is opened"
            }
            Way::Live => {
                "start the service again, which makes its state of the leaves anew, and check again: if it comes back, report it"
            }
            Way::Said => {
                "what stands in the leaves stays there, and any audit finds it: no command changes that. Report it"
            }
        }
    }
}
