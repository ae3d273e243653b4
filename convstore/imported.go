package convstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/tools/jsondoc"
)

// Imported says where a conversation came from, and what came with it and is not used here.
type Imported struct {
	At     time.Time `json:"at"`
	Parent ID        `json:"parent_id,omitzero"` // that it came with
	Apart  bool      `json:"apart,omitzero"`     // Parent did not come along: it is a root here
	Link   Link      `json:"link,omitzero"`      // as it was there; here it is a fork's
	Void
}

// Imported returns what came with a conversation, nil for one that was made here. It fails as Get
// does.
func (v View) Imported(ctx context.Context, id ID) (im *Imported, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		_, err := v.within(t, id)
		if err == nil {
			im, err = t.Imported(id)
		}
		return err
	})
	return im, absent(err, id)
}

// Imported returns what came with a conversation, nil for one that was made here.
func (t *tx) Imported(id ID) (*Imported, error) {
	v := t.Bucket(db.Imported).Get(id.key())
	if v == nil {
		return nil, nil
	}
	var im Imported
	if err := json.Unmarshal(v, &im); err != nil {
		return nil, t.Damaged("conversation %s: what it was imported with: %w", id, err)
	}
	return &im, nil
}

// Void is what a conversation was allowed, and how it was set up, where it comes from. Whoever
// imports it has given it none of that: it is kept, shown and exported again, and never used.
type Void struct {
	Profile     string `json:"profile,omitzero"`
	ProfileArg  string `json:"profile_arg,omitzero"`
	ProfileHash string `json:"profile_hash,omitzero"`
	Role        string `json:"role,omitzero"`
	Grant       *Grant `json:"grant,omitempty"`

	Config      json.RawMessage `json:"config,omitempty"`        // where JSON keeps its bytes as they are
	ConfigBytes []byte          `json:"config_base64,omitempty"` // elsewhere
	Tools       []string        `json:"tools,omitempty"`

	// Extra is what another program knew of it beyond that, by names of its own.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Raw returns the bytes of the config.
func (v Void) Raw() []byte {
	if v.ConfigBytes != nil {
		return v.ConfigBytes
	}
	return v.Config
}

// staged is what an import keeps of a conversation or a delegation until its last transaction.
type staged struct {
	By         ID          `json:"-"` // the import
	Record     *record     `json:"record,omitempty"`
	Imported   *Imported   `json:"imported,omitempty"`
	UpdatedAt  time.Time   `json:"updated_at,omitzero"` // as it came; zero = its last event
	Delegation *Delegation `json:"delegation,omitempty"`
}

// Stage stores what an import keeps, under the key of a conversation or of a delegation.
func (t *tx) Stage(key []byte, s staged) error {
	v, err := jsondoc.Encode(s)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return t.Put(db.Imports, key, append(s.By.key(), v...))
}

// StagedAt returns what Stage stored.
func (t *tx) StagedAt(key []byte) (*staged, error) {
	s, err := parseStaged(t.Bucket(db.Imports).Get(key))
	if err != nil {
		return nil, t.Damaged("imports: %x: %w", key, err)
	}
	return s, nil
}

func parseStaged(v []byte) (*staged, error) {
	if len(v) < 8 {
		return nil, fmt.Errorf("too short")
	}
	s := &staged{By: idAt(v, 0)}
	if err := json.Unmarshal(v[8:], s); err != nil {
		return nil, err
	}
	if (s.Record == nil) != (s.Imported == nil) || (s.Record == nil) == (s.Delegation == nil) {
		return nil, fmt.Errorf("neither a conversation nor a delegation")
	}
	return s, nil
}

// sweepBatch is how many entries one transaction removes.
const sweepBatch = 50_000

// sweepImports removes what imports have left that were cut off.
func (f *base) sweepImports(ctx context.Context) error {
	for {
		left := false
		err := f.read(ctx, func(t *tx) error {
			keys, err := t.abandonedImports(1)
			left = len(keys) > 0
			return err
		})
		if err == file.ErrAbsent || err == nil && !left {
			return nil
		}
		if err == nil {
			err = f.write(ctx, (*tx).sweepSome)
		}
		if err != nil {
			return err
		}
	}
}

// abandonedImports returns the keys of things that imports which do not run any more have staged,
// at most so many.
func (t *tx) abandonedImports(most int) (keys [][]byte, err error) {
	runs := make(map[ID]bool)
	err = t.Prefixed(db.Imports, nil, func(k, v []byte) error {
		by := idAt(v, 0)
		held, known := runs[by]
		if !known {
			var err error
			if held, err = t.Held(by); err != nil {
				return err
			}
			runs[by] = held
		}
		if held {
			return nil
		}
		if keys = append(keys, slices.Clone(k)); len(keys) == most {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return keys, err
}

// sweepSome removes as much of what abandoned imports have staged as one transaction should.
func (t *tx) sweepSome() error {
	keys, err := t.abandonedImports(sweepBatch)
	if err != nil {
		return err
	}
	left := sweepBatch
	for _, key := range keys {
		if left <= 0 {
			return nil
		}
		if err := t.sweep(key, &left); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what was staged under a key, and the key with the last of it, as long as there are
// entries left that it may remove.
func (t *tx) sweep(key []byte, left *int) error {
	for _, n := range []db.BucketNumber{db.Events, db.EventIDs, db.Turns} {
		if len(key) != 8 {
			break // a delegation: it is all in the entry
		}
		var keys [][]byte
		if err := t.Prefixed(n, key, func(k, _ []byte) error {
			if len(keys) == *left {
				return errEnough
			}
			keys = append(keys, k)
			return nil
		}); err != nil && err != errEnough {
			return err
		}
		for _, k := range keys {
			if err := t.Drop(n, k); err != nil {
				return err
			}
		}
		if *left -= len(keys); *left <= 0 {
			return nil
		}
	}
	*left--
	return t.Drop(db.Imports, key)
}
