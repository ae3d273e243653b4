package run

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/blank"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/worker"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/delta"
	"jp/profiles/role"
	"jp/tools/proc"
)

// Open finds or makes the conversation that a request names, takes its lock and resolves its
// config. The workspace has to be trusted, except for a run that another jp delegated. If Open
// fails, it leaves nothing behind. Otherwise the caller closes the Run, and then host.
func (env *Env) Open(ctx context.Context, host *proc.Host, req Request) (*Run, error) {
	if req.Wire != nil {
		return env.join(ctx, host, req)
	}
	at, err := env.site(ctx, host)
	if err != nil {
		return nil, err
	}
	if !workspace.WithNone(req.Directives) {
		if _, err := env.WS.Gate.Pass(ctx); err != nil {
			return nil, err
		}
	}
	o := &opening{site: at, req: req, Began: time.Now()}
	if env.Con.Globals.NoPersist {
		if o.Store, o.remove, err = env.WS.MakeStore(); err != nil {
			return nil, err
		}
	}
	r := (*Run)(o)
	if err := o.open(ctx); err != nil {
		r.Close(ctx)
		return nil, err
	}
	return r, nil
}

// site returns this workspace with its store.
func (env *Env) site(ctx context.Context, host *proc.Host) (s site, err error) {
	s = site{env: env, Host: host, far: &far{pools: map[string]*worker.Pool{}}}
	if s.Root, err = env.WS.Root(); err != nil {
		return s, err
	}
	s.Store, err = env.WS.Store(ctx)
	return s, err
}

// opening is a Run that is not valid yet.
type opening Run

// open finds or makes the conversation, takes its lock and resolves its config.
func (o *opening) open(ctx context.Context) error {
	isNew := o.req.New || o.req.ID.Value == "new"
	var target convstore.ID
	if !isNew {
		var err error
		if target, err = o.env.Target(ctx, o.req); err != nil {
			return err
		}
		isNew = target == 0
	}
	switch {
	case isNew && o.req.Task.Text == "" && !o.req.Unasked:
		return o.nothing(ctx)
	case !isNew && !o.req.Fork.Set && (o.req.Hidden || o.req.Expires.Set || o.req.Title.Set):
		return exit.Usagef("--hidden, --tmp, --title: only for a new conversation, and %s exists", target).WithHint("--new begins a new one")
	}
	if o.req.RootID.Set && !isNew {
		// Before the target's config is read.
		root, err := o.env.WS.Target(ctx, o.req.RootID.Value)
		if err != nil {
			return err
		}
		below, err := o.Store.Under(ctx, root)
		if err == nil {
			o.Conv, err = below.Get(ctx, target)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case isNew && o.req.RootID.Set:
		return o.delegateByHand(ctx)
	case isNew:
		return o.create(ctx)
	case o.env.Con.Globals.NoPersist:
		return o.borrow(ctx, target)
	case o.req.Fork.Set:
		return o.branch(ctx, target)
	}

	var err error
	if o.Conv.ID != target { // before the lock is taken, the status is still that of the last turn
		if o.Conv, err = o.Store.Get(ctx, target); err != nil {
			return err
		}
	}
	if o.Conv.Link == convstore.DelegationLink && o.Conv.Grant != nil {
		return o.continueChild(ctx)
	}
	if err = o.lock(ctx, target); err != nil {
		return err
	}
	stored := o.locked().Taken()
	if err := o.resolve(ctx, stored.JSON, o.req.Directives); err != nil {
		return err
	}
	o.change, err = o.changed(ctx, stored.JSON)
	return err
}

// nothing is the error of a run that is asked nothing and continues no conversation.
func (o *opening) nothing(ctx context.Context) error {
	if id, err := o.env.WS.Target(ctx, "recent"); err == nil && !o.req.New && !o.req.ID.Set {
		if c, err := o.Store.Get(ctx, id); err == nil && Resumable(c) && c.Status != convstore.StatusRunning {
			return exit.Usagef("query: nothing to ask, and no conversation is active here").WithHint("the latest was cut off; resume it with: jp query --id %s", id)
		}
	}
	return ErrNothing()
}

// lock takes the lock of a conversation.
func (o *opening) lock(ctx context.Context, id convstore.ID) error {
	log, err := o.Store.Lock(ctx, id)
	if err == nil {
		o.Log = log
	}
	return err
}

// changed returns what directives and flags change in the config of a conversation that is
// continued; nil = nothing.
func (o *opening) changed(ctx context.Context, before []byte) (*convstore.ConfigDelta, error) {
	return o.changedTo(ctx, before, o.accept)
}

// changedTo is changed with what returns the model and the config to be stored.
func (o *opening) changedTo(ctx context.Context, before []byte, to func(context.Context) (string, convstore.Config, error)) (*convstore.ConfigDelta, error) {
	after := o.Resolved.Stored()
	named := o.named()
	if bytes.Equal(before, after) && named == nil {
		return nil, nil
	}
	model, config, err := to(ctx)
	if err != nil {
		return nil, err
	}
	patch, err := delta.Between(before, after)
	if err != nil {
		return nil, err
	}
	if back, with, err := delta.ModelBack(before, after); err == nil && back != nil && named == nil && !o.Delegated() {
		o.back = &convstore.ConfigDelta{Delta: back, Resolved: convstore.Config{JSON: with, Tools: config.Tools}, Model: o.Conv.Model}
	}
	return &convstore.ConfigDelta{Delta: patch, Reset: o.Resolved.ResetKind, Resolved: config, Model: model, Named: named}, nil
}

// named returns the profile that directives give to a conversation that is continued; nil = no
// change. The profile of a delegated conversation never changes.
func (o *opening) named() *convstore.Named {
	r := o.Resolved
	now := convstore.Named{Profile: r.Profile, Arg: r.ProfileArg, Hash: r.ProfileHash}
	was := convstore.Named{Profile: o.Conv.Profile, Arg: o.Conv.ProfileArg, Hash: o.Conv.ProfileHash}
	if o.Conv.Link == convstore.DelegationLink || now.Profile == "" && !r.Reset || now == was {
		return nil
	}
	return &now
}

// accept checks whether the resolved config can be run, and returns its model and the form in which
// it is stored. Nothing is made or stored before that.
func (o *opening) accept(ctx context.Context) (model string, config convstore.Config, err error) {
	ids, err := o.env.Answering(o.Resolved.Config)
	if err != nil {
		return "", config, err
	}
	for _, id := range ids {
		_, info, err := o.env.Model(ctx, o.Resolved.Config, id, models.Waits{})
		if err == nil {
			err = o.req.sees(info)
		}
		if err != nil {
			return "", config, err
		}
	}
	return o.form(ctx)
}

// form is accept without its checks.
func (o *opening) form(ctx context.Context) (model string, config convstore.Config, err error) {
	if model, err = o.Resolved.Config.RequireModel(); err != nil {
		return "", config, err
	}
	defs, err := o.env.DefinitionsOf(ctx, o.Resolved, o.Conv)
	return model, convstore.Config{JSON: o.Resolved.Stored(), Tools: enabled.Names(defs)}, err
}

// branch forks the target and opens the fork.
func (o *opening) branch(ctx context.Context, src convstore.ID) (err error) {
	if o.Conv, err = o.Store.Get(ctx, src); err != nil {
		return err
	}
	if _, err := o.resolveStored(ctx, o.req.Directives); err != nil {
		return err
	}
	model, config, err := o.accept(ctx)
	if err != nil {
		return err
	}
	f := convstore.Fork{
		Hidden: o.req.Hidden, Title: o.req.Title.Value, ExpiresAt: command.Expiry(o.req.Expires), Config: &config, Model: model,
		Profile: o.Conv.Profile, ProfileArg: o.Conv.ProfileArg, ProfileHash: o.Conv.ProfileHash, Role: role.Narrower(o.Conv.Role, o.req.Role),
	}
	if o.req.Fork.Value >= 0 {
		f.Turns = convstore.LastTurns(o.req.Fork.Value)
	}
	if r := o.Resolved; r.Profile != "" {
		f.Profile, f.ProfileArg, f.ProfileHash = r.Profile, r.ProfileArg, r.ProfileHash
	}
	from := o.Conv
	if o.Conv, err = o.Store.Fork(ctx, src, f); err != nil {
		return err
	}
	o.made = true
	if err := o.lock(ctx, o.Conv.ID); err != nil {
		return err
	}
	return review.Keep(ctx, o.locked(), &o.Conv, review.Had(from))
}

// Target returns the conversation that a request would continue; 0 = none.
func (env *Env) Target(ctx context.Context, req Request) (convstore.ID, error) {
	if req.ID.Set {
		return env.WS.Target(ctx, req.ID.Value)
	}
	if req.Fork.Set {
		return env.WS.Target(ctx, "active")
	}
	m, err := env.WS.Machine()
	session := env.WS.Session()
	if err != nil || session == "" || m.Conversation.Default == "new" {
		return 0, err
	}
	store, err := env.WS.Store(ctx)
	if err != nil {
		return 0, err
	}
	active, _, err := store.Active(ctx, session)
	if err != nil || active == 0 {
		return 0, err
	}
	if c, err := store.Get(ctx, active); err == nil && c.Archived() {
		return 0, exit.Usagef("conversation %s: is archived, and is continued only by its id", active).
			WithHint("--new begins another; --id %s continues it and takes it out of the archive", active)
	}
	return active, nil
}

// resolve resolves the config. A delegated conversation keeps to its grant.
func (o *opening) resolve(ctx context.Context, stored []byte, ds []profiles.Directive) error {
	src := o.env.WS.StoredSources(stored)
	if !o.Delegated() {
		var err error
		if src, err = o.env.WS.Sources(ctx, ds); err != nil {
			return err
		}
		src.Stored, src.Person = stored, o.Conv.Grant == nil
	}
	r, err := o.env.WS.Config(src, ds, o.req.Flags)
	if err != nil {
		return err
	}
	if len(o.req.Toggles) > 0 || o.req.Only != nil {
		more, err := o.toggle(r)
		if err != nil {
			return err
		}
		if r, err = o.env.WS.Config(src, ds, slices.Concat(o.req.Flags, more)); err != nil {
			return err
		}
	}
	if o.Conv.Grant != nil {
		if cut := r.Cut(o.Conv.Grant.Tools); len(cut) > 0 {
			o.env.Con.Warn("%s: not granted and left out: %s", o.Conv.ID, strings.Join(cut, ", "))
		}
	}
	o.Resolved = r
	return nil
}

// resolveStored resolves the stored config of the conversation, and returns it.
func (o *opening) resolveStored(ctx context.Context, ds []profiles.Directive) ([]byte, error) {
	stored, err := o.Store.Config(ctx, o.Conv.ID)
	if err == nil {
		err = o.resolve(ctx, stored.JSON, ds)
	}
	return stored.JSON, err
}

// create makes a root. Its config is checked first, so that a mistake leaves nothing behind.
func (o *opening) create(ctx context.Context) error {
	if err := o.resolve(ctx, nil, o.req.Directives); err != nil {
		return err
	}
	model, config, err := o.accept(ctx)
	if err != nil {
		return err
	}
	title := o.req.Title.Value
	if title == "" && o.Resolved.Config.Conversation.FromQuery {
		title = delegate.Title(o.req.Task.Text)
	}
	n := convstore.New{
		Title: title, Hidden: o.req.Hidden, ExpiresAt: command.Expiry(o.req.Expires),
		Profile: o.Resolved.Profile, ProfileArg: o.Resolved.ProfileArg, ProfileHash: o.Resolved.ProfileHash, Model: model,
		Role:   o.req.Role,
		Config: config,
	}
	if o.req.Editor {
		blank.Begin(&n, time.Now())
	}
	if o.Conv, err = o.Store.Create(ctx, n); err != nil {
		return err
	}
	o.made = true
	return o.lock(ctx, o.Conv.ID)
}
