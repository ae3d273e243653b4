package script

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/wording"
	"jp/tools/files"
)

// Provider is whose reasoning script models say theirs is.
const Provider = "script"

// OpenRecording reads the recording in data, the content of a file whose name is for messages. An
// error that is not an *Error is about the file and does not name it.
func OpenRecording(file, name string) (s *Script, data []byte, err error) {
	if data, err = read(files.Disk{}, file); err != nil {
		return nil, nil, err
	}
	s, err = ParseRecording(name, data)
	return s, data, err
}

// ParseRecording reads a recording, to which messages give the name.
func ParseRecording(name string, data []byte) (*Script, error) {
	s, err := Parse(name, data)
	if err == nil && s.recorded == nil {
		return nil, &Error{File: name, Msg: "is a script and no recording: it has no [recorded]"}
	}
	return s, err
}

// Replay follows a recording in the workspace dir: each request is answered by the rule that was
// recorded for it, or with an error that says where the run differs. report is called with both:
// the number of the rule, or the error. The requests come from a Trail.
func (s *Script) Replay(dir string, report func(rule int, err error)) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			s.run(ctx, request{Request: r, dir: dir, report: report}, Provider, yield)
		}
	}
}

// ranOut reports whether a run was over, by its time, before a model had answered.
func (s *Script) ranOut(run string) bool {
	return slices.ContainsFunc(s.rules, func(r rule) bool { return r.hang && slices.Contains(r.run, run) })
}

// Unused describes the rules whose numbers are not among used. It leaves out closing calls of runs
// that reached their deadline: a replay may have no time for them.
func (s *Script) Unused(used map[int]bool) (titles []string) {
	for i := range s.rules {
		r := &s.rules[i]
		if r.noCalls != nil && *r.noCalls && s.ranOut(strings.Join(r.run, " ")) {
			continue
		}
		if !used[r.number] {
			titles = append(titles, fmt.Sprintf("%s, for %s, round %d", r.title(), runName(strings.Join(r.run, " ")), first(r.round)))
		}
	}
	return titles
}

// Models are the models that were asked, by full id, with their prices at that time; nil = unknown.
func (s *Script) Models() map[string]*model.Price {
	all := make(map[string]*model.Price, len(s.recorded.Models))
	for id, m := range s.recorded.Models {
		all[id] = m.Price.price()
	}
	return all
}

// Name is what messages call the script.
func (s *Script) Name() string { return s.name }

func first(list []int) int {
	if len(list) == 0 {
		return 0
	}
	return list[0]
}

// differs says why no rule of a recording answers r: what the nearest one differs in.
func (s *Script) differs(r request) string {
	where := fmt.Sprintf("this run is not as recorded: %s (%s), round %d: ", runName(r.Run), profileName(r.Profile), r.Round)
	stopped := ""
	if s.recorded.Stopped != "" {
		stopped = "; when it was recorded, the run was stopped: " + s.recorded.Stopped
	}
	var nearest *rule
	var least []string
	rounds := 0
	for i := range s.rules {
		c := &s.rules[i]
		if !slices.Contains(c.run, r.Run) {
			continue
		}
		rounds = max(rounds, first(c.round))
		if !slices.Contains(c.round, r.Round) || !slices.Contains(c.attempt, max(r.Attempt, 1)) {
			continue
		}
		if d := c.differences(r); nearest == nil || len(d) < len(least) {
			nearest, least = c, d
		}
	}
	switch {
	case nearest != nil:
		return where + nearest.title() + " " + strings.Join(least, "; ") + stopped
	case rounds == 0:
		return where + "there is no rule for it" + stopped
	}
	return where + fmt.Sprintf("there is no rule for it, the last one is for round %d", rounds) + stopped
}

func profileName(profile string) string {
	if profile == "" {
		return "no profile"
	}
	return "profile " + profile
}

// differences lists the conditions that a recording writes and that r does not meet.
func (c *rule) differences(r request) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	holds := func(one rule) bool { return one.holds(r) }
	if !holds(rule{profile: c.profile}) {
		add("is of %s", profileName(strings.Join(c.profile, " ")))
	}
	if !holds(rule{turn: c.turn}) {
		add("is of turn %d and this is %d", first(c.turn), r.Turn)
	}
	if c.noCalls != nil && *c.noCalls != (r.ToolChoice == "none") {
		add("%s", wording.Either(*c.noCalls, "is a closing call and this is none", "is no closing call and this is one"))
	}
	if !holds(rule{system: c.system}) {
		add("is for another prompt, %.80q", strings.Join(c.system, " "))
	}
	if !holds(rule{asked: c.asked}) {
		then, now := strings.Join(c.asked, " "), withoutPath(asked(r.Request), r.dir)
		add("was asked %s, and this is %s", shortened(then, now), shortened(now, then))
	}
	if !holds(rule{failed: c.failed}) {
		for _, x := range r.results() {
			if x.IsError {
				add("has no failed result, and %s failed: %.300q", x.Name, x.Text)
				return list
			}
		}
		add("has a failed result, and none failed")
	}
	if len(list) == 0 {
		add("has a condition that does not hold")
	}
	return list
}

// shortened quotes a text, from a little before the point where it differs from another text.
func shortened(text, other string) string {
	const before, most = 20, 80
	a, b := []rune(text), []rune(other)
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	from := wording.Either(n < most/2, 0, n-before)
	to := min(len(a), from+most)
	quoted := fmt.Sprintf("%q", string(a[from:to]))
	if from > 0 {
		quoted = "..." + quoted
	}
	if to < len(a) {
		quoted += "..."
	}
	return quoted
}
