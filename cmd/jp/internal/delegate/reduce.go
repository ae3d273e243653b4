package delegate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// Reduction is the request to make one answer of those of a batch.
type Reduction struct {
	Config string `json:"config"`
	Query  string `json:"query"`

	tool  string     // tool whose call delegates; "" = that for batches
	batch rule.Batch // what it and its queries may use together
}

// Input is an answer that a reduction reads, or the place of one that is missing.
type Input struct {
	Number int // of the query, from 1
	ID     string
	Status string
	Size   int                                   // bytes of the text
	Cut    bool                                  // whether that is not the whole answer
	Text   func(context.Context) (string, error) // nil = nothing was handed in
}

// Reduced says of a row that it is the answer made of those of a batch.
type Reduced struct {
	Answers int   `json:"answers"` // how many it was made of
	Missing []int `json:"missing"` // numbers of the queries whose answers are not in it, or not whole
	Agents  int   `json:"agents"`  // sub-agents that made it
	// Cut is how many of the texts in between were too long and are not in it to their end.
	Cut int `json:"cut,omitempty"`
}

// Batches of answers go to one sub-agent each, as many as its model's window holds. What they hand
// in goes to others, until one is left:
//
//	answers 1 2 3 │ 4 5 6 │ 7 8     a level: groups of neighbours, in order
//	           a  │   b   │  c      one more, if they do not fit together
//	              a b c             the last: its answer is the result
//
// An answer that is longer than a window is read in parts, each by its own sub-agent. From the
// second level on a text has at most half a window, so that each level has fewer texts than the one
// before.

// piece is a text that a sub-agent reads whole.
type piece struct {
	label   string // numbers of the queries, and the part of an answer
	status  string // "" = ok
	id      string
	numbers []int
	size    int
	text    func(context.Context) (string, error)
}

// smallRoom is the room in tokens for what a sub-agent reads, where no window is known.
const smallRoom = 32_000

// mostRead is the most bytes that one sub-agent is given to read.
const mostRead = 4 << 20

// reduction is a Reduction under way.
type reduction struct {
	d        *Delegator
	call     string
	tool     string
	what     Reduction
	parallel int
	reuse    *convstore.View // where an answer may be from before; nil = all is asked
	missing  map[int]string  // numbers of queries whose answers are not read, or not whole, with the state
	all      int             // number of queries
	cut      int             // number of texts in between that were cut
	lost     int             // number of groups whose sub-agent handed in nothing

	purse *Purse

	mu     sync.Mutex // for the fields below
	agents int
	total  convstore.Spend
	calls  int
}

// Reduce makes one answer of inputs, in their order, by sub-agents under the same rule and account.
// Not more than parallel of them run at a time. They use what is in the purse.
func (d *Delegator) Reduce(ctx context.Context, call string, what Reduction, inputs []Input, parallel int, purse *Purse, reuse bool) (Row, error) {
	tool := toolBatch
	if _, ok := d.set.Get(tool); !ok {
		tool = toolQuery
	}
	r := &reduction{d: d, call: call, tool: tool, what: what, parallel: max(parallel, 1), purse: purse, missing: map[int]string{}, all: len(inputs)}
	if reuse {
		r.reuse = d.readable
	}
	o, err := r.run(ctx, inputs)
	if !o.useful() {
		for _, in := range inputs {
			r.missing[in.Number] = in.Status
		}
	}
	o.Total, o.Calls = r.total, r.calls
	row := o.row(err, d.inline)
	row.Detail, row.Reused = o.detail(), r.agents == 0 && o.reused
	row.Query, _ = brief.Cut(unseen.Neutralize(what.Query), queryEcho)
	row.Reduced = &Reduced{Answers: r.all - len(r.missing), Missing: r.numbers(), Agents: r.agents, Cut: r.cut}
	return row, err
}

// run returns the end of the last sub-agent.
func (r *reduction) run(ctx context.Context, inputs []Input) (outcome, error) {
	room, err := r.room(ctx)
	if err != nil {
		return outcome{denied: err}, nil
	}
	var pieces []piece
	for _, in := range inputs {
		if in.Text == nil {
			r.missing[in.Number] = in.Status
			continue
		}
		if in.Cut {
			r.missing[in.Number] = "cut"
		}
		pieces = append(pieces, r.parts(in, room)...)
	}
	if len(pieces) == 0 {
		return outcome{ending: ending{State: convstore.StateError, Reason: "no query has an answer to reduce"}}, nil
	}
	for level := 1; ; level++ {
		groups := groupsOf(pieces, room)
		if len(groups) == 1 {
			o, err := r.ask(ctx, level, 1, 1, 1, r.purse.part(1), groups[0])
			if o.denied == nil && o.State == convstore.StateOK && r.cut+r.lost > 0 {
				o.State, o.Reason = convstore.StatePartial, r.worse()
			}
			return o, err
		}
		ends := make([]outcome, len(groups))
		errs := make([]error, len(groups))
		most := r.purse.part(len(groups) + 1) // and for who reads what they hand in; also after a crash
		slots := make(chan struct{}, r.parallel)
		var all sync.WaitGroup
		for i, g := range groups {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				ends[i], errs[i] = r.ask(ctx, level, i+1, len(groups), min(r.parallel, len(groups)), most, g)
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return outcome{ending: unstarted()}, err
		}
		pieces = pieces[:0:0]
		for i, g := range groups {
			pieces = append(pieces, r.handed(ends[i], g, room/2)...)
		}
		if len(pieces) == 0 {
			return ends[0], nil
		}
	}
}

// worse says what is not in the answer although it was there.
func (r *reduction) worse() string {
	var parts []string
	if r.lost > 0 {
		parts = append(parts, "sub-agents that read a part of the answers and failed: "+fmt.Sprint(r.lost))
	}
	if r.cut > 0 {
		parts = append(parts, "texts in between that were cut: "+fmt.Sprint(r.cut))
	}
	return strings.Join(parts, "; ")
}

// room returns how many bytes of answers one sub-agent reads.
func (r *reduction) room(ctx context.Context) (int, error) {
	if err := r.d.catalog.limits.Permit(r.what.Config); err != nil {
		return 0, err
	}
	p, err := r.d.catalog.profile(ctx, r.what.Config, nil)
	if err != nil {
		return 0, err
	}
	tokens := cmp.Or(max(p.Room, 0), smallRoom)
	if left := r.purse.part(1).Tokens; left != nil {
		tokens = min(tokens, *left/2) // it answers too, and is asked more than once where it has tools
	}
	// A token is three bytes for the estimate of a request.
	size := 3*tokens - int64(len(r.what.Query)) - 2*mostMissing
	if size < minRoom {
		return 0, fmt.Errorf("reduce: %d tokens are too few to read answers", tokens)
	}
	return int(min(size, mostRead)), nil
}

const (
	minRoom     = 1 << 10
	mostMissing = 512 // bytes of the line about what is missing
	wrapper     = 120 // bytes around a text
)

// parts returns the pieces of an answer.
func (r *reduction) parts(in Input, room int) []piece {
	p := piece{label: fmt.Sprint(in.Number), numbers: []int{in.Number}, id: in.ID, size: in.Size + wrapper, text: in.Text}
	if in.Status != string(convstore.StateOK) {
		p.status = in.Status
	}
	most := room - wrapper
	if in.Size <= most {
		return []piece{p}
	}
	most -= utf8.UTFMax // a character on a border is whole, in the part in which it begins
	n := (in.Size + most - 1) / most
	list := make([]piece, n)
	for i := range list {
		q := p
		q.label, q.size = fmt.Sprintf("%d, part %d of %d", in.Number, i+1, n), min(most+utf8.UTFMax, in.Size-i*most)+wrapper
		q.text = func(ctx context.Context) (string, error) {
			text, err := in.Text(ctx)
			return text[border(text, i*most):border(text, (i+1)*most)], err
		}
		list[i] = q
	}
	return list
}

// border returns the first byte of a character in text that is not before i.
func border(text string, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return min(i, len(text))
}

// groupsOf divides pieces, in order, into as few groups as hold them.
func groupsOf(pieces []piece, room int) (groups [][]piece) {
	size := 0
	for i, p := range pieces {
		if i == 0 || size+p.size > room {
			groups, size = append(groups, nil), 0
		}
		size += p.size
		groups[len(groups)-1] = append(groups[len(groups)-1], p)
	}
	return groups
}

// handed returns what the sub-agent of a group has handed in, with at most limit bytes; nothing
// where it has not.
func (r *reduction) handed(o outcome, group []piece, limit int) []piece {
	numbers := numbersOf(group)
	if !o.useful() {
		r.lost++
		for _, n := range numbers {
			r.missing[n] = o.row(nil, 0).Status
		}
		return nil
	}
	text := unseen.Neutralize(strings.TrimSpace(o.Text))
	if most := limit - wrapper; len(text)+o.Rest > most {
		cut, rest := brief.Cut(text, most-len("\n[ bytes are cut here]")-20) // digits
		text = cut + fmt.Sprintf("\n[%d bytes are cut here]", rest+o.Rest)
		r.cut++
	}
	p := piece{label: brief.Ranges(numbers), numbers: numbers, id: o.child.String(), size: len(text) + wrapper}
	if o.State != convstore.StateOK {
		p.status = string(o.State)
	}
	p.text = func(context.Context) (string, error) { return text, nil }
	return []piece{p}
}

// ask gives a group to a sub-agent, which may use no more than most: the n-th of so many of a level.
func (r *reduction) ask(ctx context.Context, level, n, of, among int, most convstore.Budget, group []piece) (outcome, error) {
	query, err := r.query(ctx, of, group)
	if err != nil {
		return outcome{}, err
	}
	var a admission
	a.request, a.err = r.d.catalog.request(ctx, fmt.Sprintf("%s#r%d.%d", r.call, level, n), r.tool, arguments{Config: r.what.Config, Query: query})
	a.Batch, a.Among, a.Reuse, a.place = &r.what.batch, among, r.reuse, int(r.d.placed.Add(1))
	a.Tool = cmp.Or(r.what.tool, a.Tool)
	a.Title = brief.Prefix(fmt.Sprintf("reduce %s: %s", brief.Ranges(numbersOf(group)), Title(r.what.Query)), 200)
	var used convstore.Spend // also by runs of before a crash
	put := r.purse.take(&a.Ask, most)
	o, err := r.d.carryOut(ctx, a)
	for o.recalled && err == nil {
		var was Item
		if r.d.reread(ctx, &o, &was); was.Query == agent.Stored(query) {
			break
		}
		used = used.Add(o.Total)
		a.Call += "+" // answers came or went since the crash, and that run has read others
		o, err = r.d.carryOut(ctx, a)
	}
	used = used.Add(o.Total)
	put(used)
	o.shorten(max(r.d.inline, mostRead/2)) // the next level reads no more
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total = r.total.Add(used)
	if o.denied == nil && !o.reused && o.child != 0 {
		r.agents++
		r.calls += o.Calls
	}
	return o, err
}

// query returns what a sub-agent is asked.
func (r *reduction) query(ctx context.Context, of int, group []piece) (string, error) {
	var b strings.Builder
	b.WriteString(r.what.Query + "\n\n")
	if of > 1 {
		fmt.Fprintf(&b, "These are the answers %s of %d: a part of them. Another agent puts together what you and others hand in.\n"+
			"Hand in all of this part that matters to the task above, with the numbers where they matter, and nothing else.\n\n", brief.Ranges(numbersOf(group)), r.all)
	}
	for _, p := range group {
		text, err := p.text(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, `<answer number="%s" conversation_id="%s"`, p.label, p.id)
		if p.status != "" {
			fmt.Fprintf(&b, ` status="%s"`, p.status)
		}
		b.WriteString(">\n" + unseen.Defang(unseen.Neutralize(text), "answer") + "\n</answer>\n")
	}
	if len(r.missing) > 0 {
		line, rest := brief.Cut("Missing, without an answer: "+r.why(), mostMissing)
		if rest > 0 {
			line += fmt.Sprintf(" ..., %d of %d in all", len(r.missing), r.all)
		}
		b.WriteString("\n" + line + ".\n")
	}
	return b.String(), nil
}

// numbers returns the numbers of the queries that are missing.
func (r *reduction) numbers() []int {
	list := make([]int, 0, len(r.missing))
	for n := range r.missing {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// why names the queries that are missing, by what became of them.
func (r *reduction) why() string {
	by := map[string][]int{}
	var states []string
	for _, n := range r.numbers() {
		s := r.missing[n]
		if by[s] == nil {
			states = append(states, s)
		}
		by[s] = append(by[s], n)
	}
	var parts []string
	for _, s := range states {
		parts = append(parts, fmt.Sprintf("%s (%s)", brief.Ranges(by[s]), s))
	}
	return strings.Join(parts, ", ")
}

// numbersOf returns the numbers of the queries of a group, in order.
func numbersOf(group []piece) (numbers []int) {
	for _, p := range group {
		numbers = append(numbers, p.numbers...)
	}
	return slices.Compact(numbers)
}

// reducedResult is the result of a batch whose answers were reduced.
type reducedResult struct {
	Reduced Row       `json:"answer"`
	OK      int       `json:"ok"` // number of tasks that ended so
	Others  []unready `json:"others"`
	// Answers are the rows of all tasks, as without a reduction, where it came to nothing and some
	// of them have an answer.
	Answers json.RawMessage `json:"answers,omitempty"`
}

// unready is a task that did not end ok.
type unready struct {
	Task           int     `json:"task"` // from 1
	ConversationID *string `json:"conversation_id"`
	Status         string  `json:"status"`
	Reason         string  `json:"reason"`
}

// reduced returns the result of a batch whose tasks have ended and are reduced now.
func (d *Delegator) reduced(ctx context.Context, call string, a batchArguments, ends []outcome, errs []error, size int) (tools.Result, error) {
	inputs := make([]Input, len(ends))
	var used int64
	result := reducedResult{Others: []unready{}}
	for i := range ends {
		row := ends[i].row(errs[i], 0)
		if row.Status == string(convstore.StateOK) {
			result.OK++
		} else {
			reason, _ := brief.Cut(row.Reason, 100)
			result.Others = append(result.Others, unready{i + 1, row.ConversationID, row.Status, reason})
		}
		inputs[i] = Input{Number: i + 1, Status: row.Status, Size: len(ends[i].Text) + ends[i].Rest}
		used = amount.Sum(used, ends[i].Total.Tokens())
		if row.ConversationID != nil && ends[i].useful() {
			inputs[i].ID = *row.ConversationID
			inputs[i].Text = func(ctx context.Context) (string, error) {
				if ends[i].Rest > 0 {
					return AnswerOf(ctx, *d.readable, ends[i].child, ends[i].Turn, math.MaxInt)
				}
				return ends[i].Text, nil
			}
		}
	}
	a.Reduce.batch = rule.Batch{Tokens: a.TotalBudget, Calls: call + "#"}
	left := convstore.Budget{Tokens: a.TotalBudget}.Minus(convstore.Budget{Tokens: &used})
	var err error
	if result.Reduced, err = d.Reduce(ctx, call, *a.Reduce, inputs, a.MaxParallel, NewPurse(left, false), false); err != nil {
		return tools.Result{}, err
	}
	result.Reduced.Detail = nil
	good := result.Reduced.Status == string(convstore.StateOK) || result.Reduced.Status == string(convstore.StatePartial)
	text, err := jsondoc.Encode(result)
	if some := slices.ContainsFunc(inputs, func(in Input) bool { return in.Text != nil }); err == nil && !good && some {
		var answers string
		if answers, err = rows(a.Queries, ends, errs, d.inline, max(size-len(text), 0)); err == nil {
			result.Answers = json.RawMessage(answers)
			text, err = jsondoc.Encode(result)
		}
	}
	if over := len(text) - size; err == nil && over > 0 { // what is escaped takes more
		result.Reduced.Text, _ = brief.Cut(result.Reduced.Text, max(len(result.Reduced.Text)-over, 0)/2)
		text, err = jsondoc.Encode(result)
	}
	return tools.Result{Text: string(text), IsError: !good}, err
}
