// SPDX-License-Identifier: GPL-2.0-only
/*
 * One socket, by its file descriptor: give it a profile at any time of its life, read back what
 * is in force on it.
 *
 * A program has the descriptor of its own sockets, and of another's by pidfd_getfd(2). The socket
 * must be TCP, connected and of the same namespace. A listener is refused: its children ask the
 * dispatcher, by their own address.
 */
#include <linux/file.h>
#include <linux/module.h>
#include <net/inet_ecn.h>

#include "internal.h"

/*
 * A TCP socket of this namespace; the caller puts the file. -EBADF, -ENOTSOCK, -ENOPROTOOPT,
 * -EXDEV.
 */
static struct socket *ct_socket_find(const struct ct_net *cn, int fd)
{
	struct socket *sock;
	struct sock *sk;
	int err;

	sock = sockfd_lookup(fd, &err);
	if (!sock)
		return ERR_PTR(err);
	sk = sock->sk;
	err = 0;
	if (!sk || (sk->sk_family != AF_INET && sk->sk_family != AF_INET6) || !sk_is_tcp(sk))
		err = -ENOPROTOOPT;
	else if (ct_net_of(sock_net(sk)) != cn)
		err = -EXDEV;
	if (!err)
		return sock;
	sockfd_put(sock);
	return ERR_PTR(err);
}

static struct ct_version *ct_version_by_id(struct ct_net *cn, u32 id)
{
	struct ct_version *version = NULL;
	struct ct_profile *profile;

	mutex_lock(&cn->lock);
	rcu_read_lock();
	profile = id ? ct_profile_find(cn, id) : NULL;
	if (profile)
		version = ct_version_get(&profile->now);
	else if (!id)
		version = ct_version_get(&cn->plain);
	rcu_read_unlock();
	mutex_unlock(&cn->lock);
	return version;
}

/*
 * As tcp_reinit_congestion_control(), which is not exported. Takes the reference to `version` if
 * it returns 0.
 */
static int ct_take_over(struct sock *sk, struct ct_version *version)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_congestion_ops *old = icsk->icsk_ca_ops;

	if ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT) ||
	    !icsk->icsk_ca_initialized)
		return -ENOTCONN;
	if (icsk->icsk_ca_dst_locked)
		return -EPERM; /* ip route ... congctl lock */
	if (old->owner == BPF_MODULE_OWNER)
		return -EOPNOTSUPP;
	__module_get(THIS_MODULE);
	if (old->release)
		old->release(sk);
	/* anew: our own release() has put the dispatcher there */
	module_put(icsk->icsk_ca_ops->owner);
	memset(icsk->icsk_ca_priv, 0, sizeof(icsk->icsk_ca_priv));
	tcp_sk(sk)->prior_ssthresh = 0;
	ct_attach(sk, version);
	if (tcp_ca_needs_ecn(sk))
		INET_ECN_xmit(sk);
	else
		INET_ECN_dontxmit(sk);
	return 0;
}

/*
 * AssignProfile(socket, id), at any time of its life; id 0 gives it back to the plain congestion
 * control.
 */
int ct_socket_assign(struct ct_net *cn, int fd, u32 id)
{
	struct ct_version *version;
	struct socket *sock;
	int err;

	sock = ct_socket_find(cn, fd);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	err = -ENOENT;
	version = ct_version_by_id(cn, id);
	if (!version)
		goto out;
	lock_sock(sock->sk);
	err = ct_take_over(sock->sk, version);
	release_sock(sock->sk);
	if (err)
		ct_version_put(version);
out:
	sockfd_put(sock);
	return err;
}

/* How we act after idle, and resume, is in no field of the socket, but in the version. */
static bool ct_is_versions(u32 key)
{
	return key == CONFIGTRON_SLOW_START_AFTER_IDLE || key == CONFIGTRON_RESUME_CWND ||
	       key == CONFIGTRON_RESUME_RTT;
}

static void ct_read_param(const struct sock *sk, const struct ct_version *version,
			  struct configtron_param *param)
{
	u32 key = param->key;

	if (ct_param_is_text(key))
		strscpy(param->text, inet_csk(sk)->icsk_ca_ops->name, sizeof(param->text));
	else if (ct_is_versions(key) && version && ct_given(&version->set, key))
		param->value = version->set.value[key];
	else
		param->value = ct_param_read(sk, key);
}

/* What is in force on a socket, parameter by parameter; head->count is the room in `params`. */
int ct_socket_get(struct ct_net *cn, int fd, struct configtron_socket_params *head,
		  struct configtron_param *params)
{
	struct configtron_param_info info = {};
	const struct ct_version *version;
	u32 room = head->count;
	struct socket *sock;
	struct sock *sk;

	sock = ct_socket_find(cn, fd);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	sk = sock->sk;
	head->count = 0;
	head->profile = 0;
	lock_sock(sk);
	version = ct_version_held(sk);
	if (version && version->profile)
		head->profile = version->profile->id;
	for (info.key = 0; !ct_param_info(&info) && head->count < room; info.key++) {
		if (!(info.flags & CONFIGTRON_PARAM_SETTABLE))
			continue;
		params[head->count].key = info.key;
		ct_read_param(sk, version, &params[head->count++]);
	}
	release_sock(sk);
	sockfd_put(sock);
	return 0;
}
