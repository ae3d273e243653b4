package cli

// session names who the active conversation belongs to: $JP_SESSION, else the controlling terminal; "" without either.
func (a *app) session() string {
	if s := a.getenv("JP_SESSION"); s != "" {
		return "env:" + s
	}
	return terminalSession()
}

// errNoSession is for --activate where nothing could hold the active conversation.
func errNoSession() error {
	return usagef("--activate: this process belongs to no session").
		withHint("it has no terminal; set JP_SESSION to a name of your choice")
}
