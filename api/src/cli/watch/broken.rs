//! The loudest alert: a log is not what it was. Both heads are kept, and said what they mean.

use std::path::Path;

use anyhow::anyhow;

use super::{ATTEMPTS, ears::Ears};
use crate::{
    cli::{
        out,
        pin::show::{keep, told},
    },
    monitor::{Alert, Breach, Broken},
    pins::{Head, PinError, Pins},
};

/// Keeps both heads, and tells whoever listens. What the command ends with.
pub(super) fn tell(broken: &Broken, folder: &Path, ears: &mut Ears) -> anyhow::Error {
    let alert = Alert::of_log(broken);
    let lines = match kept(broken, folder) {
        Ok(lines) => lines,
        Err(error) => {
            out::note(format_args!("countersign: the heads are not kept: {error}"));
            // What cannot be kept as files is at least shown.
            format!("{}\n{}\n{}\n", alert.line, broken.against.note, broken.note)
        }
    };
    let heard = ears.print(lines.trim_end(), &alert.json);
    // The watch ends with this, delivered or not; the next start tells it again.
    let heard = heard.and(ears.post(&alert, Some(ATTEMPTS)));
    let origin = &broken.now.origin;
    match heard {
        Ok(()) => anyhow!("{origin}: {}", broken.what),
        Err(error) => anyhow!("{origin}: {}; and {error}", broken.what),
    }
}

/// Keeps them as pins are kept, and says where.
fn kept(broken: &Broken, folder: &Path) -> Result<String, PinError> {
    let (log, before) = (&broken.pinned.log, &broken.against);
    let pins = Pins::new(folder);
    let file = pins.add(log, &before.note, &before.checkpoint, before.edge.as_ref())?;
    let missing = || PinError::Changed {
        path: folder.into(),
        what: "what was just kept is not there".into(),
    };
    let pinned = pins.of(&log.origin)?.ok_or_else(missing)?;
    let against = Head {
        file,
        ..(**before).clone()
    };
    let now = (&broken.now, broken.note.as_str());
    let (now_file, evidence) = keep(&pinned, &against, now, broken.fork.as_deref())?;
    let heads = (&against, &broken.now);
    Ok(match broken.kind {
        Breach::Rewritten => told(
            &log.origin,
            &broken.what,
            heads,
            (&broken.note, now_file),
            evidence.as_ref(),
        ),
        Breach::Shrunk => {
            let (origin, size) = (&log.origin, against.checkpoint.size);
            format!(
                "{origin}: does not hold: THE LOG HAS SHRUNK\n  before  {size} leaves, root {}\n          kept in {}\n  now     {} leaves, \
                 root {}\n          kept in {}\n  what shows it: {}.\n  what it means: what it signed and served is not served any more: it was \
                 put back to an older state, or is read\n  from another place than before. Leaves beyond the smaller size may come back \
                 changed. If a log of {size} leaves or\n  more of the same history is shown again, a watch with the same state file goes on.\n",
                against.checkpoint.root,
                against.file.display(),
                broken.now.size,
                broken.now.root,
                now_file.display(),
                broken.what
            )
        }
    })
}
