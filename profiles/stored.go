package profiles

import "jp/profiles/tomldoc"

// Stored is the canonical JSON (sorted keys, no insignificant space) of all settings that were set,
// without machine and loader settings and what holds for one run: what a new conversation stores.
// Resolving it again gives the same bytes.
func (r *Resolved) Stored() []byte { return tomldoc.Canonical(r.kept) }
