# Runs as root in a copy of a clean root: installs a package as a user would and runs the demo.
# From outside: KIND, PACKAGE (a file in /dist), WHAT (for pip), PYTHON, NUMBER (the user's).
user() { setpriv --reuid="$NUMBER" --regid="$NUMBER" --clear-groups env HOME=/home/user sh -euc "cd; $1"; }
now() { date +%s.%N; }
quietly() { "$@" > /tmp/said 2>&1 || { cat /tmp/said >&2; exit 1; }; }
export PIP_CACHE_DIR=/pip PIP_DISABLE_PIP_VERSION_CHECK=1 DEBIAN_FRONTEND=noninteractive
chown "$NUMBER:$NUMBER" /pip

case "$KIND" in
    deb*) quietly apt-get update -qq ;;
    *) user "$PYTHON -m venv ~/venv" ;;
esac
begin="$(now)"
case "$KIND" in
    deb*)
        quietly apt-get install -qq --yes --no-install-recommends "/dist/$PACKAGE"
        python='env PYTHONPATH=/usr/lib/openrknn /usr/bin/python3' command=openrknn ;;
    *)
        user "~/venv/bin/pip install --quiet $WHAT"
        python='~/venv/bin/python' command='~/venv/bin/openrknn' ;;
esac
echo "INSTALL $begin $(now)"
user "$python --version"

begin="$(now)"
user "$command demo --json" > /tmp/demo
echo "RUN $begin $(now)"
echo "DEMO $(tr -d '\n' < /tmp/demo)"
user "$python /shipping/kernels.py"

case "$KIND" in
    lite | toolkit) user "$python /shipping/face_$KIND.py" ;;
    deb*)
        man="$(find /usr/share/man/man1 -name 'openrknn*.1.gz' | wc -l)"
        echo "PAGES $man"
        quietly apt-get purge -qq --yes openrknn
        left="$(find /usr /etc /var/lib -path /var/lib/dpkg -prune -o -name '*openrknn*' -print)"
        [ -z "$left" ] || { echo "purging left $left" >&2; exit 1; } ;;
esac
