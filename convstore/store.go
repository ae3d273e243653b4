package convstore

import (
	"context"
	"iter"
	"os"
	"time"
)

// Options says how to open a store. The zero value works.
type Options struct {
	ReadOnly bool             // refuse every write with ErrReadOnly
	Deadline time.Duration    // how long to wait for the store's lock; 0 = 30 s
	Now      func() time.Time // nil = time.Now
	Notice   func(string)     // told what a user should know; nil = dropped

	// Workspace is the folder whose conversations these are. The first write
	// records it, so that Locate recognises it when it was renamed. "" = none.
	Workspace string
}

type Store struct {
	View
}

type View struct{ db *int }

type Scope struct{ View }

type Log struct{}

type New struct {
	Title       string
	Hidden      bool
	Pinned      bool
	ExpiresAt   time.Time
	Labels      map[string]string
	Profile     string
	ProfileHash string
	Model       string
	Role        string
	Config      Config
}

type Fork struct {
	Turns     Range   // the turns to copy; the zero Range is all
	Title     string  // "" = the source's
	Hidden    bool    // not inherited
	ExpiresAt time.Time
	Config    *Config // nil = the source's
	Profile, ProfileHash, Model string // with Config
}

type RemoveOptions struct {
	Cascade bool // remove everything below too
	Promote bool // hand the children to the grandparent
}

type Env struct {
	Get      func(string) string
	Override string
	Notice   func(string)
}

func Open(dir string, o Options) (*Store, error)                           { panic("soon") }
func Locate(env Env, workspace string) (dir string, err error)            { panic("soon") }
func (s *Store) Create(ctx context.Context, n New) (Conversation, error)  { panic("soon") }
func (s *Store) Fork(ctx context.Context, src ID, f Fork) (Conversation, error) { panic("soon") }
func (s *Store) Edit(ctx context.Context, id ID, edit func(*Conversation) error) error {
	panic("soon")
}
func (s *Store) Remove(ctx context.Context, id ID, o RemoveOptions) ([]ID, error) { panic("soon") }
func (s *Store) Expire(ctx context.Context) ([]ID, error)                         { panic("soon") }
func (s *Store) Under(ctx context.Context, root ID) (View, error)                 { panic("soon") }
func (s *Store) Below(ctx context.Context, parent ID) (Scope, error)              { panic("soon") }
func (s *Store) Lock(ctx context.Context, id ID) (*Log, error)                    { panic("soon") }
func (s *Store) Adopt(ctx context.Context, id ID, f *os.File) (*Log, error)       { panic("soon") }
func (s *Store) Activate(ctx context.Context, session string, id ID) error        { panic("soon") }
func (s *Store) Active(ctx context.Context, session string) (active, previous ID, err error) {
	panic("soon")
}
func (s *Store) Check(ctx context.Context) error { panic("soon") }
func (s *Store) Path() string                    { panic("soon") }

func (v View) Get(ctx context.Context, id ID) (Conversation, error)              { panic("soon") }
func (v View) List(ctx context.Context, f Filter) ([]Conversation, error)        { panic("soon") }
func (v View) Events(ctx context.Context, id ID, r Range) iter.Seq2[Event, error] { panic("soon") }
func (v View) Config(ctx context.Context, id ID) (Config, error)                 { panic("soon") }
func (v View) Search(ctx context.Context, q Query) iter.Seq2[Match, error]       { panic("soon") }
func (v View) Delegations(ctx context.Context, root ID) ([]Delegation, error)    { panic("soon") }

func (l *Log) ID() ID                                                      { panic("soon") }
func (l *Log) Get(ctx context.Context) (Conversation, error)               { panic("soon") }
func (l *Log) Config(ctx context.Context) (Config, error)                  { panic("soon") }
func (l *Log) Events(ctx context.Context, r Range) iter.Seq2[Event, error] { panic("soon") }
func (l *Log) Append(ctx context.Context, events ...Event) error           { panic("soon") }
func (l *Log) SetTitle(ctx context.Context, title string) error            { panic("soon") }
func (l *Log) Below() Scope                                                { panic("soon") }
func (l *Log) Close() error                                                { panic("soon") }

func (s Scope) Reserve(ctx context.Context, admit func(Standing) ([]Child, error)) ([]*Reservation, error) {
	panic("soon")
}
func (s Scope) Begin(ctx context.Context, r *Reservation, started Started) error { panic("soon") }
func (s Scope) Settle(ctx context.Context, r *Reservation, o Outcome) (Delegation, error) {
	panic("soon")
}

func isLoose([]byte) bool                                    { return false }
func withoutMembers(b []byte, _ ...string) ([]byte, error) { return b, nil }
