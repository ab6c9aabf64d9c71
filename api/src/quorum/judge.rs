//! What a policy means for the log of a key, and what is wrong with it.

use countersign_verifier::policy::{Meaning, Policy};

/// What a policy means for the log of a key.
pub struct Judged {
    /// Who must cosign; `None` where nobody must.
    pub meaning: Option<Meaning>,
    /// Why no head could be published under it.
    pub faults: Vec<String>,
    /// What its owner should know.
    pub warnings: Vec<String>,
}

/// Judges a policy; `own` says whether it lists the log's key.
#[must_use]
pub fn judge(policy: &Policy, own: bool) -> Judged {
    let meaning = policy.meaning();
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    if !own {
        faults.push(
            "it does not list the log's own key: nothing of this log would verify under it".into(),
        );
    }
    match &meaning {
        None => warnings.push(
            "it asks for no witness: nobody but the log vouches for its heads, and nothing keeps a restored copy from forking it"
                .into(),
        ),
        Some(meaning) => {
            if !meaning.without_address.is_empty() {
                let names: Vec<String> =
                    meaning.without_address.iter().map(ToString::to_string).collect();
                faults.push(format!(
                    "no address for {}: the log cannot ask; add the URL to the line",
                    names.join(", ")
                ));
            }
            if meaning.splits {
                warnings.push(
                    "two sets of witnesses that have nobody in common meet it: each could cosign a branch of its own, and a fork would \
                     look witnessed. More than half must be asked for"
                        .into(),
                );
            }
            if meaning.spare == 0 {
                warnings.push(
                    "none of them may fail: one that is down keeps every head from being witnessed".into(),
                );
            }
        }
    }
    Judged {
        meaning,
        faults,
        warnings,
    }
}
