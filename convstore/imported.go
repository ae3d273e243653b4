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

// Imported says where an imported conversation came from, and holds what came with it and is not
// used.
type Imported struct {
	At     time.Time `json:"at"`
	Parent ID        `json:"parent_id,omitzero"` // parent that it came with
	Apart  bool      `json:"apart,omitzero"`     // Parent was not imported, so the conversation is a root here
	Link   Link      `json:"link,omitzero"`      // link to Parent where it came from; here it is a ForkLink
	Void
}

// Imported returns what came with an imported conversation, nil for any other. It fails as Get
// does.
func (v View) Imported(ctx context.Context, id ID) (*Imported, error) {
	return of(ctx, v, id, func(t *tx, _ *record) (*Imported, error) { return t.Imported(id) })
}

// Imported returns what came with an imported conversation, nil for any other.
func (t *tx) Imported(id ID) (*Imported, error) {
	v := t.Bucket(db.Imported).Get(id.key())
	if v == nil {
		return nil, nil
	}
	var im Imported
	if err := json.Unmarshal(v, &im); err != nil {
		return nil, t.Damaged("conversation %s: its entry in imported: %w", id, err)
	}
	return &im, nil
}

// Void holds the config, profile, role and grant that an imported conversation had where it came
// from. Nobody granted these here: they are stored, shown and exported again, but never used.
type Void struct {
	Profile     string `json:"profile,omitzero"`
	ProfileArg  string `json:"profile_arg,omitzero"`
	ProfileHash string `json:"profile_hash,omitzero"`
	Role        string `json:"role,omitzero"`
	Grant       *Grant `json:"grant,omitempty"`

	Config      json.RawMessage `json:"config,omitempty"`        // if its bytes survive as JSON
	ConfigBytes []byte          `json:"config_base64,omitempty"` // otherwise
	Tools       []string        `json:"tools,omitempty"`

	// Extra is further metadata of another program, under that program's names.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Raw returns the bytes of the config.
func (v Void) Raw() []byte {
	if v.ConfigBytes != nil {
		return v.ConfigBytes
	}
	return v.Config
}

// staged is a conversation or a delegation that an import stores until its last transaction.
type staged struct {
	By         ID          `json:"-"` // the import
	Record     *record     `json:"record,omitempty"`
	Imported   *Imported   `json:"imported,omitempty"`
	UpdatedAt  time.Time   `json:"updated_at,omitzero"` // time that came with it; zero = that of its last event
	Delegation *Delegation `json:"delegation,omitempty"`
}

// Stage stores s under the key of a conversation or of a delegation.
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

// sweepBatch is the number of entries that one transaction removes at most.
const sweepBatch = 50_000

// sweepImports removes what imports wrote that were cut off.
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

// abandonedImports returns at most so many keys of bucket imports whose imports do not run any
// more.
func (t *tx) abandonedImports(most int) (keys [][]byte, err error) {
	runs := make(map[ID]bool)
	err = t.Prefixed(db.Imports, nil, func(k, v []byte) error {
		by := idAt(v, 0)
		held, seen := runs[by]
		if !seen {
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
	return keys, enough(err)
}

// sweepSome removes up to sweepBatch entries that abandoned imports wrote.
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

// sweep removes the entries that were staged under a key, and then the key itself. It removes at
// most *left entries and subtracts them from it.
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
