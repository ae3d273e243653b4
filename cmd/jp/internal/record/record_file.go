package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model/script"
	"jp/tools/files"
)

// Options are --record and --replay. If one names a folder, the file is in it, under a name made
// from the request. So one variable can record a script that runs jp several times in any order,
// and another one can replay it.
type Options struct {
	record command.Maybe[string]
	replay command.Maybe[string]
}

func Flags(o *Options) []*command.Option {
	return []*command.Option{
		command.String(&o.record, "record", "FILE", "record all answers of models, also to sub-agents, in the new FILE, or in a new file in the folder FILE "+
			"(also $JP_RECORD)"),
		command.String(&o.replay, "replay", "FILE", "ask no model: take the answers from the recording FILE; the status is 1 if the run asks something else "+
			"(also $JP_REPLAY)"),
	}
}

// The variables that replace the flags, for every command that has them.
const (
	recordVariable = "JP_RECORD"
	replayVariable = "JP_REPLAY"
)

// Refuse returns an error for a command that cannot be recorded or replayed, if a variable says
// that it should be.
func Refuse(con *console.Console, command string) error {
	for _, name := range []string{replayVariable, recordVariable} {
		if con.Getenv(name) != "" {
			return exit.Refusedf("%s: cannot be recorded or replayed, and $%s is set", command, name).WithHint("unset it for this command")
		}
	}
	return nil
}

// Wanted reports whether flags, or else variables, say that a run is recorded or replayed.
func Wanted(con *console.Console, o Options) bool {
	return o.record.Set || o.replay.Set || con.Getenv(recordVariable) != "" || con.Getenv(replayVariable) != ""
}

// Files returns the files that flags, or else variables, name for a request; "" is none. who are
// the words of the command line that name the model.
func Files(con *console.Console, o Options, request string, who ...string) (record, replay string, err error) {
	if !o.record.Set && !o.replay.Set {
		for name, to := range map[string]*command.Maybe[string]{recordVariable: &o.record, replayVariable: &o.replay} {
			if v := con.Getenv(name); v != "" {
				*to = command.Given(v)
			}
		}
	}
	switch {
	case o.record.Set && o.replay.Set:
		return "", "", command.ErrMixed("--record", "--replay")
	case o.record.Set && o.record.Value == "", o.replay.Set && o.replay.Value == "":
		return "", "", exit.Usagef("--record, --replay: the name of the file is empty")
	case o.record.Set:
		record, err = tapeFile(con, o.record.Value, request, who, func(dir string) error { return os.MkdirAll(dir, 0o755) })
		if err != nil {
			err = exit.Usagef("--record %s: cannot be made: %v", o.record.Value, files.Reason(err))
		}
	case o.replay.Set:
		replay, _ = tapeFile(con, o.replay.Value, request, who, func(string) error { return nil })
		if _, missing := os.Stat(con.Abs(replay)); replay != o.replay.Value && errors.Is(missing, fs.ErrNotExist) {
			err = notAsRecorded("%s: no such request was recorded: %s is not there", o.replay.Value, filepath.Base(replay))
		}
	}
	return record, replay, err
}

// tapeFile returns the file that a word names. If the word ends in "/", it names a folder. If that
// does not exist, tapeFile calls dir with it.
func tapeFile(con *console.Console, word, request string, who []string, dir func(string) error) (string, error) {
	info, err := os.Stat(con.Abs(word))
	switch folder := strings.HasSuffix(word, "/"); {
	case err == nil && info.IsDir():
	case !folder:
		return word, nil
	default:
		if err := dir(con.Abs(word)); err != nil {
			return "", err
		}
	}
	return filepath.Join(word, recordingOf(request, who)), nil
}

// recordingNames matches what recordingOf returns.
func recordingNames() *regexp.Regexp { return regexp.MustCompile(`-[0-9a-f]{8}\.toml$`) }

// recordingOf returns a name for the recording of a request: its beginning, for people, and a hash
// of all of it. The hash ignores conversation ids, because a replay has others.
func recordingOf(request string, who []string) string {
	const most = 40
	var b strings.Builder
	for _, r := range strings.ToLower(delegate.Title(request)) {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
		if b.Len() >= most {
			break
		}
	}
	sum := sha256.Sum256([]byte(script.WithoutIDs(strings.Join(append(who, request), "\x00"))))
	return cmp.Or(strings.Trim(b.String(), "-"), "request") + "-" + hex.EncodeToString(sum[:4]) + ".toml"
}
