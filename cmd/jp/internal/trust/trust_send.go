package trust

import (
	"context"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"jp/cmd/jp/internal/exit"
	"jp/tools/fs"
	"jp/tools/unseen"
)

// Sent is what a sub-agent on another machine knows of the workspace of its caller. The machine
// either has the same workspace, or gets the files.
type Sent struct {
	Root     string            `json:"root"`               // path of the workspace; the other machine has it too, or gets Files
	Stamps   map[string]string `json:"stamps,omitempty"`   // of what passed the gate
	Files    map[string][]byte `json:"files,omitempty"`    // bytes of the small regular files of it
	Copied   bool              `json:"copied,omitempty"`   // Files are all that there is of the workspace
	Withheld bool              `json:"withheld,omitempty"` // no file of the workspace may be used
	Kept     fs.Kept           `json:"kept"`               // what is kept from tools of the caller's machine: a launcher may lead to that very machine
}

// KeptVariable tells a sub-agent the file of Sent.Kept, which may have any number of paths.
const KeptVariable = "JP_KEPT"

// maxSent bounds the bytes of Files.
const maxSent = 16 << 20

// Send returns what a sub-agent elsewhere is told of the workspace. With copied it gets the files.
func (g *Gate) Send(copied bool) (s Sent, err error) {
	if s.Root, err = g.Root(); err != nil {
		return s, err
	}
	passed := g.Passed()
	s.Copied, s.Withheld = copied, passed == nil
	if passed == nil {
		return s, nil
	}
	if !copied {
		s.Stamps = passed.Stamps
		return s, nil
	}
	s.Files = maps.Clone(passed.Data)
	delete(s.Files, MCPFile) // it may have tokens in it, and servers are called from here
	for _, key := range slices.Sorted(maps.Keys(passed.Stamps)) {
		if _, ok := passed.Data[key]; !ok && key != MCPFile && regular(passed.Stamps[key]) != "" {
			return s, exit.Refusedf("workspace %s: %s has more than %d MiB, and is not sent to another machine", s.Root, unseen.Word(key), MaxContributedKept>>20)
		}
	}
	size := 0
	for _, data := range s.Files {
		size += len(data)
	}
	if size > maxSent {
		return s, exit.Refusedf("workspace %s: %d MiB of trusted files: at most %d are sent to another machine", s.Root, size>>20, maxSent>>20)
	}
	return s, nil
}

// Lay makes below dir, an empty folder of this user, what the sub-agents of this machine need: the
// record of trust and, where the workspace is copied, the workspace. It returns the folder of the
// workspace, and the variables that lead a sub-agent to the record. The error is a refusal if the
// workspace of this machine is not the one that was sent.
func (s Sent) Lay(dir string) (root string, environ []string, err error) {
	root, stamps := s.Root, s.Stamps
	if s.Copied {
		root = filepath.Join(dir, "workspace")
		if stamps, err = s.copy(root); err != nil {
			return "", nil, err
		}
	} else if err := s.same(); err != nil {
		return "", nil, err
	}
	state := filepath.Join(dir, "state") // a folder that no tool reaches
	if err := os.Mkdir(state, 0o700); err != nil {
		return "", nil, err
	}
	kept := filepath.Join(state, "kept.json")
	if data, err := json.Marshal(s.Kept); err != nil {
		return "", nil, err
	} else if err := os.WriteFile(kept, data, 0o600); err != nil {
		return "", nil, err
	}
	environ = []string{"JP_STORE=" + state, KeptVariable + "=" + kept}
	if s.Withheld {
		return root, append(environ, Variable+"=none"), nil
	}
	records := Gate{Records: func(context.Context, string) (string, error) { return state, nil }}
	file, canonical, err := records.RecordPath(context.Background(), root)
	if err != nil {
		return "", nil, err
	}
	return root, environ, writeRecord(file, Record{Workspace: canonical, State: State{Files: stamps, Shown: &Shown{}}})
}

// copy writes the files that were sent, and returns their stamps.
func (s Sent) copy(root string) (map[string]string, error) {
	if err := os.MkdirAll(filepath.Join(root, ".jp"), 0o700); err != nil {
		return nil, err
	}
	stamps := map[string]string{}
	for key, data := range s.Files {
		if !iofs.ValidPath(key) || !filepath.IsLocal(filepath.FromSlash(key)) {
			return nil, fmt.Errorf("%s: no file of a workspace", unseen.Quote(key))
		}
		path := filepath.Join(root, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, data, 0o700); err != nil {
			return nil, err
		}
		stamps[key] = DataStamp(data)
	}
	return stamps, nil
}

// same checks that this machine has the workspace that was sent.
func (s Sent) same() error {
	if !filepath.IsAbs(s.Root) {
		return fmt.Errorf("workspace %s: not an absolute path", unseen.Quote(s.Root))
	}
	if info, err := os.Stat(filepath.Join(s.Root, ".jp")); err != nil || !info.IsDir() {
		return exit.Refusedf("workspace %s: not there", s.Root)
	}
	if s.Withheld {
		return nil
	}
	if err := (Judgement{}).fit(s.Root); err != nil {
		return err
	}
	here, err := look(s.Root)
	if err != nil {
		return err
	}
	changes := Changes(s.Stamps, here.Stamps)
	if len(changes) == 0 {
		return nil
	}
	return exit.Refusedf("workspace %s: is another one here: %s", s.Root, listed(changes))
}

// listed returns a few changes in words.
func listed(changes []Change) string {
	const most = 10
	names := make([]string, 0, most+1)
	for _, c := range changes[:min(len(changes), most)] {
		names = append(names, unseen.Word(c.Path)+" ("+c.State+")")
	}
	if more := len(changes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
