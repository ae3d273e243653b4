package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"jp/convstore"
)

// salvagedLine is one line of what `store check --salvage` writes. Version and Store stand in the first one, ID in the others,
// and of the rest what there is.
type salvagedLine struct {
	Version int              `json:"jp_salvage,omitempty"`
	Store   string           `json:"store,omitempty"`
	At      *time.Time       `json:"at,omitempty"`
	ID      convstore.ID     `json:"conversation_id,omitzero"`
	Record  json.RawMessage  `json:"record,omitempty"` // as stored
	Config  json.RawMessage  `json:"config,omitempty"`
	Tools   []string         `json:"tools,omitempty"`
	Event   *convstore.Event `json:"event,omitempty"`
}

// salvageVersion is the version of these lines.
const salvageVersion = 1

// maxLostNotes bounds what is said about lost parts one by one.
const maxLostNotes = 20

func runSalvage(ctx context.Context, a *app, st *convstore.Store, path string) (err error) {
	path = a.abs(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usagef("--salvage %s: there is such a file", path).withHint("name one that does not exist")
	}
	if err != nil {
		return &failure{code: "failed", status: exitFailed, msg: fmt.Sprintf("--salvage %s: %v", path, errors.Unwrap(err)), err: err}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path) // half of it would look like all of it
		}
	}()
	conversations, events, lost := 0, 0, 0
	w := bufio.NewWriterSize(file, 1<<20)
	now := time.Now().UTC()
	err = writeSalvaged(w, salvagedLine{Version: salvageVersion, Store: st.Path(), At: &now})
	if err == nil {
		for piece, bad := range st.Salvage(ctx, func(what error) {
			if lost++; lost <= maxLostNotes {
				a.note("lost: %v", what)
			}
		}) {
			line := salvagedLine{ID: piece.ID, Record: piece.Record, Tools: piece.Config.Tools, Event: piece.Event}
			if json.Valid(piece.Config.JSON) {
				line.Config = piece.Config.JSON
			}
			if piece.Event != nil {
				events++
			} else if bad == nil {
				conversations++
			}
			if err = errors.Join(bad); err == nil {
				err = writeSalvaged(w, line)
			}
			if err != nil {
				break
			}
		}
	}
	if flushed := errors.Join(w.Flush(), file.Sync(), file.Close()); err == nil {
		err = flushed
	}
	if err != nil {
		return err
	}
	if lost > maxLostNotes {
		a.note("lost: %d more", lost-maxLostNotes)
	}
	if a.json() {
		return a.document(map[string]any{"path": st.Path(), "salvaged": path, "conversations": conversations, "events": events, "lost": lost})
	}
	_, err = fmt.Fprintf(a.io.Out, "%s: %s, %s, %d lost\n", path, plural(conversations, "conversation"), plural(events, "event"), lost)
	return err
}

func writeSalvaged(w *bufio.Writer, line salvagedLine) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("salvage: conversation %s: %w", line.ID, err)
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.WriteByte('\n')
}
